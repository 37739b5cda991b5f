#ifndef HVD_EXAMPLES_DIGITS_IMAGES_H
#define HVD_EXAMPLES_DIGITS_IMAGES_H

#include <stddef.h>

enum {
    PIXELS = 64,
    CLASSES = 10,
    MAX_IMAGES = 4096,
    HELD_BACK = 5, /* every fifth image is kept for the test at the end */
};

struct image {
    float pixels[PIXELS]; /* 0 (white) to 1 */
    int digit;
};

struct image_set {
    struct image images[MAX_IMAGES];
    int n;
};

/*
 * Reads lines of 64 pixels from 0 to 16 and the digit, separated by commas, into the two sets,
 * which must be empty. Returns 0, or -1 after a message on stderr.
 */
int images_load(const char *path, struct image_set *training, struct image_set *held_back);

/* Returns the path of the data: beside this program, else in the installation. Writes it to path.
 */
const char *images_find(char *path, size_t size);

#endif
