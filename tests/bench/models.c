/*
 * Shapes are computed from the definitions of the models: He et al. 2015 (50 layers, batch
 * normalisation behind each convolution) and Devlin et al. 2018 (24 layers of width 1,024).
 */
#include "tests/bench/models.h"

struct list {
    size_t *sizes;
    size_t n;
};

static void add(struct list *l, size_t n_elements)
{
    l->sizes[l->n++] = n_elements;
}

/* A convolution without bias, and its batch normalisation. */
static void add_convolution(struct list *l, size_t in, size_t out, size_t width)
{
    add(l, in * out * width * width);
    add(l, out);
    add(l, out);
}

/* Weights and bias. */
static void add_linear(struct list *l, size_t in, size_t out)
{
    add(l, in * out);
    add(l, out);
}

static void add_normalisation(struct list *l, size_t width)
{
    add(l, width);
    add(l, width);
}

size_t model_resnet50(size_t *sizes)
{
    static const size_t depths[] = {3, 4, 6, 3};
    struct list l = {.sizes = sizes};
    size_t in = 64;

    add_convolution(&l, 3, 64, 7);
    for (size_t stage = 0; stage < 4; stage++) {
        const size_t width = (size_t)64 << stage;
        for (size_t block = 0; block < depths[stage]; block++) {
            add_convolution(&l, in, width, 1);
            add_convolution(&l, width, width, 3);
            add_convolution(&l, width, 4 * width, 1);
            if (block == 0)
                add_convolution(&l, in, 4 * width, 1);
            in = 4 * width;
        }
    }
    add_linear(&l, in, 1000);
    return l.n;
}

size_t model_bert_large(size_t *sizes)
{
    const size_t width = 1024;
    struct list l = {.sizes = sizes};

    add(&l, 30522 * width);
    add(&l, 512 * width);
    add(&l, 2 * width);
    add_normalisation(&l, width);
    for (int layer = 0; layer < 24; layer++) {
        for (int projection = 0; projection < 4; projection++)
            add_linear(&l, width, width);
        add_normalisation(&l, width);
        add_linear(&l, width, 4 * width);
        add_linear(&l, 4 * width, width);
        add_normalisation(&l, width);
    }
    add_linear(&l, width, width);
    return l.n;
}
