/*
 * Base64 as in Secrets and kubeconfig files: the standard alphabet with padding. Pure. The decoder
 * is strict about alphabet and padding: a certificate that was cut short must be an error here, not
 * a TLS failure later.
 */
#include "operator/kube/base64.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

hvd_status_t hvd_base64_encode(const void *data, size_t len, struct hvd_buf *out)
{
    const unsigned char *in = data;
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < len && st == HVD_OK; i += 3) {
        size_t left = len - i;
        uint32_t word = (uint32_t)in[i] << 16;
        char text[4];

        word |= left > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        word |= left > 2 ? (uint32_t)in[i + 2] : 0;
        text[0] = alphabet[word >> 18 & 63];
        text[1] = alphabet[word >> 12 & 63];
        text[2] = left > 1 ? alphabet[word >> 6 & 63] : '=';
        text[3] = left > 2 ? alphabet[word & 63] : '=';
        st = hvd_buf_add(out, text, sizeof(text));
    }
    return st;
}

/* Adds the bytes of a group of four characters, n_pad of which were padding. */
static hvd_status_t put_group(uint32_t word, unsigned n_pad, struct hvd_buf *out)
{
    const unsigned char bytes[3] = {(unsigned char)(word >> 16), (unsigned char)(word >> 8),
                                    (unsigned char)word};

    return hvd_buf_add(out, bytes, 3 - n_pad);
}

hvd_status_t hvd_base64_decode(struct hvd_strview text, struct hvd_buf *out)
{
    uint32_t word = 0;
    unsigned n_chars = 0;
    unsigned n_pad = 0;
    hvd_status_t st = HVD_OK;

    for (size_t i = 0; i < text.len && st == HVD_OK; i++) {
        unsigned char c = (unsigned char)text.data[i];
        const char *at = c ? strchr(alphabet, c) : NULL;

        if (isspace(c))
            continue;
        if (c == '=' && n_chars >= 2 && n_pad < 2)
            n_pad++;
        else if (!at || n_pad)
            return HVD_ERR_INVALID;
        word = word << 6 | (at ? (uint32_t)(at - alphabet) : 0);
        if (++n_chars < 4)
            continue;
        st = put_group(word, n_pad, out);
        n_chars = 0;
        word = 0;
    }
    if (st == HVD_OK && n_chars)
        return HVD_ERR_INVALID;
    return st;
}
