/* Makes texts of libstdc++. Pure. */
#include "worker/python/tensorflow/core/cxx_text.h"

#include <string.h>

_Static_assert(sizeof(struct hvd_cxx_text) == 32, "the layout of libstdc++ on 64 bits");
_Static_assert(offsetof(struct hvd_cxx_optional_text, has_text) == 32, "likewise");

struct hvd_cxx_text hvd_cxx_text_of(const char *s)
{
    const size_t len = strlen(s);
    char *data = NULL;

    memcpy(&data, &s, sizeof(data)); /* it is not written to */
    return (struct hvd_cxx_text){.data = data, .len = len, .capacity = len};
}

void hvd_cxx_text_init(struct hvd_cxx_text *text)
{
    memset(text, 0, sizeof(*text));
    text->data = text->local;
}
