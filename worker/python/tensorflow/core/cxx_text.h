#ifndef HVD_WORKER_PYTHON_TENSORFLOW_CORE_CXX_TEXT_H
#define HVD_WORKER_PYTHON_TENSORFLOW_CORE_CXX_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Texts of libstdc++, whose layout its ABI fixes. A text that fits lies in `local`, and `data`
 * points there; so the struct must not be copied. Pure.
 */
struct hvd_cxx_text {
    char *data;
    size_t len;
    union {
        char local[16];
        size_t capacity;
    };
};

/* std::optional<std::string>, which is all that the status of a custom call of XLA contains. */
struct hvd_cxx_optional_text {
    struct hvd_cxx_text text;
    bool has_text;
};

/* std::optional<std::string_view> */
struct hvd_cxx_optional_view {
    size_t len;
    const char *data;
    bool has_text;
};

/* Returns a text that borrows a terminated string, for a C++ function that only reads it. It must
 * not be destroyed. */
struct hvd_cxx_text hvd_cxx_text_of(const char *s);

/* Makes an empty text at `text`, which libstdc++ may change and destroy afterwards. */
void hvd_cxx_text_init(struct hvd_cxx_text *text);

#endif
