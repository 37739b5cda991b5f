/*
 * Lists of tensors whose packing is measured: equal small ones, a skewed list, the gradients of
 * BERT large and of ResNet-50.
 */
#include "tests/integration/cuda/tensor_lists.h"

static void add(struct tensor_list *t, int64_t count)
{
    t->counts[t->n++] = count;
}

static void add_linear(struct tensor_list *t, int64_t out, int64_t in)
{
    add(t, out * in);
    add(t, out);
}

static void fill_many_small(struct tensor_list *t)
{
    t->name = "1,024 x 4 KiB";
    for (int i = 0; i < 1024; i++)
        add(t, 1024);
}

static void fill_skewed(struct tensor_list *t)
{
    unsigned random = 1;

    t->name = "2,001, one of 256 MiB";
    for (int i = 0; i < 2001; i++) {
        random = random * 1103515245U + 12345U;
        add(t, i == 1000 ? 256 << 18 : (int64_t)(random >> 16) % 512 + 1);
    }
}

static void fill_bert_large(struct tensor_list *t)
{
    const int64_t width = 1024;

    t->name = "BERT large";
    add(t, 30522 * width);
    add(t, 512 * width);
    add(t, 2 * width);
    add_linear(t, width, 1);
    for (int layer = 0; layer < 24; layer++) {
        for (int i = 0; i < 4; i++)
            add_linear(t, width, width);
        add_linear(t, width, 1);
        add_linear(t, 4 * width, width);
        add_linear(t, width, 4 * width);
        add_linear(t, width, 1);
    }
    add_linear(t, width, width);
}

/* A convolution and the two vectors of its normalisation. */
static void add_convolution(struct tensor_list *t, int64_t out, int64_t in, int64_t side)
{
    add(t, out * in * side * side);
    add(t, out);
    add(t, out);
}

static void fill_resnet50(struct tensor_list *t)
{
    const int blocks[] = {3, 4, 6, 3};
    int64_t in = 64;

    t->name = "ResNet-50";
    add_convolution(t, 64, 3, 7);
    for (int stage = 0; stage < 4; stage++) {
        const int64_t width = 64 << stage;
        for (int i = 0; i < blocks[stage]; i++) {
            add_convolution(t, width, in, 1);
            add_convolution(t, width, width, 3);
            add_convolution(t, 4 * width, width, 1);
            if (i == 0)
                add_convolution(t, 4 * width, in, 1);
            in = 4 * width;
        }
    }
    add_linear(t, 1000, 2048);
}

void tensor_list_fill(struct tensor_list *t, int which)
{
    static void (*const fill[TENSOR_LISTS])(struct tensor_list *) = {
        fill_many_small, fill_skewed, fill_bert_large, fill_resnet50};

    t->n = 0;
    fill[which](t);
}
