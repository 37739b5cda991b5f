/*
 * Reads the images for the network: plain text, one image per line.
 */
#include "examples/digits/images.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int images_load(const char *path, struct image_set *training, struct image_set *held_back)
{
    FILE *file = fopen(path, "r");
    int n = 0;
    int at = 0;
    int value = 0;

    if (!file) {
        fprintf(stderr, "digits: %s: %s (--data FILE names the data)\n", path, strerror(errno));
        return -1;
    }
    for (; n < MAX_IMAGES && fscanf(file, "%d,", &value) == 1 && value >= 0 && value <= 16; at++) {
        struct image_set *set = n % HELD_BACK == 0 ? held_back : training;

        if (at < PIXELS) {
            set->images[set->n].pixels[at] = (float)value / 16;
            continue;
        }
        set->images[set->n++].digit = value % CLASSES;
        n++;
        at = -1;
    }
    if (n >= HELD_BACK && at == 0 && feof(file)) {
        fclose(file);
        return 0;
    }
    fprintf(stderr, "digits: %s, image %d: not 64 pixels (0-16) and a digit\n", path, n + 1);
    fclose(file);
    return -1;
}

const char *images_find(char *path, size_t size)
{
    char self[2048];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    while (len > 0 && self[len - 1] != '/')
        len--;
    self[len > 0 ? len : 0] = '\0';
    snprintf(path, size, "%sdigits.csv", self);
    if (access(path, R_OK) != 0)
        snprintf(path, size, "%s../share/horovod/examples/digits/digits.csv", self);
    return path;
}
