#ifndef HVD_TESTS_UNIT_SUPPORT_H
#define HVD_TESTS_UNIT_SUPPORT_H

/* What every unit test includes first: cmocka with the headers it needs, and the allocator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/status.h"
#include "tests/unit/mem_testing.h"

#endif
