/*
 * The part of the client that knows the server's address and the operator's identity: TLS, client
 * certificates, tokens that rotate, and the TCP options that detect a dead connection.
 * (curl_easy_upkeep does nothing with the multi interface, so the kernel has to do it.)
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/mem.h"
#include "operator/kube/client_internal.h"

#define TOKEN_MAX (64 * 1024)
#define TOKEN_PERIOD_MS 60000
#define CONNECT_TIMEOUT_MS 10000L
#define TCP_IDLE_S 10L
#define TCP_INTERVAL_S 5L
#define TCP_PROBES 3
#define TCP_SILENCE_MS 20000
/* libcurl caches a file of authorities, by default for a day, even if none of them fits. So many
 * seconds after its replacement a new file counts for the next connection. */
#define CA_CACHE_S 10L

int64_t hvd_kube_session_now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/*
 * libcurl takes the name for SNI and verification from the URL. With tls-server-name the URL has
 * that name, and CONNECT_TO has the real address.
 */
static hvd_status_t alias_server(struct hvd_kube_session *session, const char *tls_name,
                                 struct hvd_err *err)
{
    const char *server = session->config->server;
    const char *scheme_end = strstr(server, "://") + 3;
    size_t host_len = strcspn(scheme_end, "/");
    const char *rest = scheme_end + host_len;
    const char *colon = memrchr(scheme_end, ':', host_len);
    const char *bracket = memrchr(scheme_end, ']', host_len);
    bool has_port = colon && (!bracket || colon > bracket);
    struct hvd_strview host = {scheme_end, has_port ? (size_t)(colon - scheme_end) : host_len};
    struct hvd_strview port = hvd_strview_of("443");
    struct hvd_buf text;
    hvd_status_t st;

    if (has_port)
        port = (struct hvd_strview){colon + 1, host_len - host.len - 1};
    hvd_buf_init(&text, 4096);
    st = hvd_buf_printf(&text, "%s:%.*s:%.*s:%.*s", tls_name, (int)port.len, port.data,
                        (int)host.len, host.data, (int)port.len, port.data);
    if (st == HVD_OK)
        session->alias = curl_slist_append(NULL, text.data);
    hvd_buf_reset(&text);
    if (st == HVD_OK)
        st = hvd_buf_printf(&text, "https://%s:%.*s%s", tls_name, (int)port.len, port.data, rest);
    if (st == HVD_OK)
        session->server = hvd_buf_take(&text);
    hvd_buf_fini(&text);
    if (!session->alias || !session->server)
        return HVD_FAIL(err, HVD_ERR_NOMEM, 0, "tls-server-name %s: out of memory", tls_name);
    return HVD_OK;
}

static void wipe(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    hvd_free(secret);
}

static hvd_status_t read_token(const char *path, char **out, struct hvd_err *err)
{
    char *text = NULL;
    hvd_status_t st = hvd_kube_config_read_file(path, TOKEN_MAX, &text, err);

    if (st != HVD_OK)
        return st;
    text[strcspn(text, " \t\r\n")] = '\0';
    if (!*text) {
        wipe(text);
        return HVD_FAIL(err, HVD_ERR_INVALID, 0, "%s: the token file is empty", path);
    }
    *out = text;
    return HVD_OK;
}

hvd_status_t hvd_kube_session_init(struct hvd_kube_session *session,
                                   const struct hvd_kube_config *config, struct hvd_err *err)
{
    hvd_status_t st = HVD_OK;

    *session = (struct hvd_kube_session){.config = config};
    if (config->token_file)
        st = read_token(config->token_file, &session->token, err);
    session->token_read_ms = hvd_kube_session_now_ms();
    if (st == HVD_OK && config->tls_server_name && hvd_str_has_prefix(config->server, "https://"))
        return alias_server(session, config->tls_server_name, err);
    if (st == HVD_OK) {
        session->server = hvd_strdup(config->server);
        if (!session->server)
            st = HVD_FAIL(err, HVD_ERR_NOMEM, 0, "%s: out of memory", config->origin);
    }
    return st;
}

void hvd_kube_session_fini(struct hvd_kube_session *session)
{
    wipe(session->token);
    hvd_free(session->server);
    curl_slist_free_all(session->alias);
    *session = (struct hvd_kube_session){0};
}

bool hvd_kube_session_refresh(struct hvd_kube_session *session, int64_t now_ms, bool is_forced)
{
    char *token = NULL;
    bool is_new;

    if (!session->config->token_file ||
        (!is_forced && now_ms - session->token_read_ms < TOKEN_PERIOD_MS))
        return false;
    session->token_read_ms = now_ms;
    if (read_token(session->config->token_file, &token, NULL) != HVD_OK)
        return false;
    is_new = !hvd_str_equal(token, session->token);
    wipe(session->token);
    session->token = token;
    return is_new;
}

bool hvd_kube_session_add_auth(const struct hvd_kube_session *session, struct curl_slist **headers)
{
    const char *token = session->token ? session->token : session->config->token;
    struct curl_slist *longer = NULL;
    struct hvd_buf line;

    if (!token)
        return true;
    hvd_buf_init(&line, TOKEN_MAX + 64);
    if (hvd_buf_printf(&line, "Authorization: Bearer %s", token) == HVD_OK)
        longer = curl_slist_append(*headers, line.data);
    if (longer)
        *headers = longer;
    if (line.data)
        explicit_bzero(line.data, line.len);
    hvd_buf_fini(&line);
    return longer != NULL;
}

/*
 * A connection is dead when its peer sends nothing for 20 seconds, not even acknowledgements.
 * Closing one discards the kernel's unsent bytes: a write that was given up must not arrive later.
 */
static int set_socket_options(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
    unsigned silence_ms = TCP_SILENCE_MS;
    int probes = TCP_PROBES;
    const struct linger discard = {.l_onoff = 1, .l_linger = 0};

    (void)ctx;
    if (purpose == CURLSOCKTYPE_IPCXN) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof(silence_ms));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &discard, sizeof(discard));
    }
    return CURL_SOCKOPT_OK;
}

static CURLcode set_blob(CURL *easy, CURLoption option, const char *pem)
{
    struct curl_blob blob = {.data = (void *)pem, .len = strlen(pem), .flags = CURL_BLOB_NOCOPY};

    return curl_easy_setopt(easy, option, &blob);
}

/* Trusted authorities: the same options for the server and for a proxy that uses TLS. */
struct trust_options {
    CURLoption verify_peer;
    CURLoption verify_host;
    CURLoption ca_blob;
    CURLoption ca_file;
    CURLoption ca_path;
};

/*
 * A configured authority is the only one. It replaces libcurl's built-in file, but the built-in
 * directory (the system's authorities) stays unless it is removed.
 */
static CURLcode apply_trust(const struct hvd_kube_config *config,
                            const struct trust_options *options, CURL *easy)
{
    CURLcode rc = CURLE_OK;

    if (config->is_insecure) {
        rc = curl_easy_setopt(easy, options->verify_peer, 0L);
        if (rc == CURLE_OK)
            rc = curl_easy_setopt(easy, options->verify_host, 0L);
        return rc;
    }
    if (config->ca_data)
        rc = set_blob(easy, options->ca_blob, config->ca_data);
    else if (config->ca_file)
        rc = curl_easy_setopt(easy, options->ca_file, config->ca_file);
    if (rc == CURLE_OK && (config->ca_data || config->ca_file))
        rc = curl_easy_setopt(easy, options->ca_path, (const char *)NULL);
    return rc == CURLE_NOT_BUILT_IN ? CURLE_OK : rc; /* the TLS library has no such directories */
}

static CURLcode apply_tls(const struct hvd_kube_config *config, CURL *easy)
{
    static const struct trust_options server = {CURLOPT_SSL_VERIFYPEER, CURLOPT_SSL_VERIFYHOST,
                                                CURLOPT_CAINFO_BLOB, CURLOPT_CAINFO,
                                                CURLOPT_CAPATH};
    static const struct trust_options proxy = {
        CURLOPT_PROXY_SSL_VERIFYPEER, CURLOPT_PROXY_SSL_VERIFYHOST, CURLOPT_PROXY_CAINFO_BLOB,
        CURLOPT_PROXY_CAINFO, CURLOPT_PROXY_CAPATH};
    CURLcode rc = apply_trust(config, &server, easy);

    if (rc == CURLE_OK) /* from the configuration or the environment, as in kubectl */
        rc = apply_trust(config, &proxy, easy);
    if (rc == CURLE_OK && config->cert_data)
        rc = set_blob(easy, CURLOPT_SSLCERT_BLOB, config->cert_data);
    else if (rc == CURLE_OK && config->cert_file)
        rc = curl_easy_setopt(easy, CURLOPT_SSLCERT, config->cert_file);
    if (rc == CURLE_OK && config->key_data)
        rc = set_blob(easy, CURLOPT_SSLKEY_BLOB, config->key_data);
    else if (rc == CURLE_OK && config->key_file)
        rc = curl_easy_setopt(easy, CURLOPT_SSLKEY, config->key_file);
    return rc;
}

CURLcode hvd_kube_session_apply(struct hvd_kube_session *session, CURL *easy)
{
    static const struct {
        CURLoption option;
        long value;
    } numbers[] = {
        {CURLOPT_NOSIGNAL, 1L},
        {CURLOPT_PATH_AS_IS, 1L},
        {CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L}, /* on_header wants the server's only */
        {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS},
        {CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS},
        {CURLOPT_TCP_KEEPALIVE, 1L},
        {CURLOPT_TCP_KEEPIDLE, TCP_IDLE_S},
        {CURLOPT_TCP_KEEPINTVL, TCP_INTERVAL_S},
#if LIBCURL_VERSION_NUM >= 0x075700
        {CURLOPT_CA_CACHE_TIMEOUT, CA_CACHE_S},
#endif
    };
    CURLcode rc = CURLE_OK;

    for (size_t i = 0; rc == CURLE_OK && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        rc = curl_easy_setopt(easy, numbers[i].option, numbers[i].value);
    /* With TLS a request waits for a connection that it can share, which TLS negotiates at the
     * start. Without TLS each stream would wait for the end of the one before, because libcurl 7.88
     * checks again only then. */
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(easy, CURLOPT_PIPEWAIT,
                              hvd_str_has_prefix(session->server, "https:") ? 1L : 0L);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, set_socket_options);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(easy, CURLOPT_USERAGENT, "horovod-operator/" HVD_VERSION);
    if (rc == CURLE_OK && session->alias)
        rc = curl_easy_setopt(easy, CURLOPT_CONNECT_TO, session->alias);
    if (rc == CURLE_OK && session->config->proxy_url)
        rc = curl_easy_setopt(easy, CURLOPT_PROXY, session->config->proxy_url);
    return rc == CURLE_OK ? apply_tls(session->config, easy) : rc;
}
