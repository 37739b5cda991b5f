/*
 * Asks another operator for its health, as a kubelet would: for `horovod-operator --probe`, in an
 * image that has no other program. Runs in a process of its own, without an event loop, and blocks.
 */
#include "operator/kube/probe.h"

#include <ctype.h>
#include <curl/curl.h>
#include <time.h>

#define ATTEMPT_TIMEOUT_MS 2000L
#define PERIOD_S 1
#define TEXT_MAX 512 /* of an answer, for the message */

struct answer {
    char bytes[TEXT_MAX];
    size_t len;
};

/* Keeps the first bytes of an answer, on one line; drops the rest. */
static size_t keep(char *data, size_t size, size_t n, void *ctx)
{
    struct answer *text = ctx;

    for (size_t i = 0; i < size * n && text->len < TEXT_MAX; i++)
        if (data[i] == '\n' || isprint((unsigned char)data[i]))
            text->bytes[text->len++] = data[i] == '\n' ? ' ' : data[i];
    return size * n;
}

static CURLcode set_up(CURL *easy, const char *url, struct answer *text)
{
    static const struct {
        CURLoption option;
        long value;
    } numbers[] = {
        {CURLOPT_NOSIGNAL, 1L},       {CURLOPT_TIMEOUT_MS, ATTEMPT_TIMEOUT_MS},
        {CURLOPT_SSL_VERIFYPEER, 0L}, {CURLOPT_SSL_VERIFYHOST, 0L},
        {CURLOPT_FRESH_CONNECT, 1L},
    };
    CURLcode rc = CURLE_OK;

    for (size_t i = 0; rc == CURLE_OK && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        rc = curl_easy_setopt(easy, numbers[i].option, numbers[i].value);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(easy, CURLOPT_PROXY, "");
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(easy, CURLOPT_WRITEDATA, text);
    return rc == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_URL, url) : rc;
}

static hvd_status_t ask(CURL *easy, const char *url, struct answer *text, struct hvd_err *err)
{
    long code = 0;
    CURLcode rc;

    text->len = 0;
    rc = curl_easy_perform(easy);
    if (rc == CURLE_URL_MALFORMAT || rc == CURLE_UNSUPPORTED_PROTOCOL)
        return HVD_FAIL(err, HVD_ERR_INVALID, (int)rc, "%s: %s: give an http or https URL", url,
                        curl_easy_strerror(rc));
    if (rc != CURLE_OK)
        return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, (int)rc, "%s: %s", url, curl_easy_strerror(rc));
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
    while (text->len && text->bytes[text->len - 1] == ' ')
        text->len--;
    if (code != 200)
        return HVD_FAIL(err, HVD_ERR_UNAVAILABLE, (int)code, "%s: HTTP %ld: %.*s", url, code,
                        (int)text->len, text->bytes);
    return HVD_OK;
}

hvd_status_t hvd_kube_probe_wait(const char *url, unsigned n_attempts, struct hvd_err *err)
{
    const struct timespec period = {.tv_sec = PERIOD_S};
    CURL *easy = curl_easy_init();
    struct answer text = {.len = 0};
    hvd_status_t st = HVD_ERR_UNAVAILABLE;

    if (!easy)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory", url);
    if (set_up(easy, url, &text) != CURLE_OK)
        st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: libcurl takes no options", url);
    for (unsigned i = 0; st == HVD_ERR_UNAVAILABLE && i < n_attempts; i++) {
        if (i > 0)
            (void)nanosleep(&period, NULL);
        st = ask(easy, url, &text, err);
    }
    curl_easy_cleanup(easy);
    return st;
}
