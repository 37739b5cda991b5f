/*
 * An allreduce in a program that XLA has compiled for the host. XLA calls a C function by its name
 * ("custom call") in the thread that runs the program, and the function waits there. Operands are
 * the tensors, and perhaps a byte that the call before this one returned. Results are the tensors
 * and such a byte. So the calls of a program depend on each other and run in its order on each
 * rank.
 *
 * XLA has no C functions for the registry of custom calls, nor for the failure of one. Both are
 * reached by the names of C++ functions and by the layout of texts in libstdc++. XLA reads a status
 * that was made here back before the first call, so a layout that differs is found at once.
 */
#include "worker/python/tensorflow/xla.h"

#include <dlfcn.h>
#include <string.h>

#include "base/mem.h"
#include "horovod/horovod.h"
#include "worker/python/tensorflow/core/compiled.h"
#include "worker/python/tensorflow/core/cxx_text.h"
#include "worker/python/tensorflow/core/elements.h"
#include "worker/python/tensorflow/core/names.h"

#define LIBRARY "libtensorflow_cc.so.2"
#define TEXT "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

/* void std::string::_M_append(const char *, size_t), of libstdc++ */
#define APPEND "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm"
/* CustomCallTargetRegistry::Global(), and Register(const std::string &, void *,
 * const std::string &) */
#define REGISTRY "_ZN3xla24CustomCallTargetRegistry6GlobalEv"
#define REGISTER "_ZN3xla24CustomCallTargetRegistry8RegisterERK" TEXT "PvS8_"
/* std::optional<std::string_view> CustomCallStatusGetMessage(const XlaCustomCallStatus *) */
#define GET_MESSAGE "_ZN3xla26CustomCallStatusGetMessageEPK20XlaCustomCallStatus_"

static struct {
    void *(*append)(struct hvd_cxx_text *, const char *, size_t);
    void *(*registry)(void);
    void (*add)(void *registry, const struct hvd_cxx_text *name, void *function,
                const struct hvd_cxx_text *platform);
    struct hvd_cxx_optional_view (*message_of)(const struct hvd_cxx_optional_text *status);
} cxx;

/* --- A call ----------------------------------------------------------------------------------- */

struct member {
    horovod_tensor_t tensor;
    int64_t shape[HVD_TF_COMPILED_NDIM_MAX];
    char name[HVD_TF_NAME_MAX + 1];
};

/* The arguments of a submission, n each. */
struct batch {
    struct hvd_tf_compiled call;
    struct member *members; /* owned, like the others */
    const horovod_tensor_t **tensors;
    const void **inputs;
    horovod_handle_t *handles;
    void *const *outputs; /* borrowed from XLA */
};

static void fail(horovod_error_t *err, horovod_status_t status, const char *message)
{
    err->status = status;
    strncpy(err->message, message, sizeof(err->message) - 1);
}

static void close_batch(struct batch *batch)
{
    hvd_free(batch->members);
    hvd_free(batch->tensors);
    hvd_free(batch->inputs);
    hvd_free(batch->handles);
}

/* A factor of 0 means 1 to the runtime; so zeros are reduced in place of the inputs. */
static void make_zeros(struct batch *batch)
{
    for (int i = 0; i < batch->call.n; i++) {
        horovod_tensor_t *tensor = &batch->members[i].tensor;
        const size_t bytes = hvd_tf_compiled_count(tensor) * hvd_tf_element_size(tensor->dtype);
        tensor->prescale_factor = 1;
        tensor->postscale_factor = 1;
        if (bytes > 0)
            memset(batch->outputs[i], 0, bytes);
        batch->inputs[i] = batch->outputs[i];
    }
}

/* Reads the tensors of the text. False: err has the reason. */
static bool read_members(struct batch *batch, const void *const *operands, horovod_error_t *err)
{
    struct hvd_tf_compiled *call = &batch->call;
    const int of = call->is_group ? call->n : 0;

    for (int i = 0; i < call->n; i++) {
        struct member *member = &batch->members[i];
        if (!hvd_tf_compiled_next(call, &member->tensor, member->shape)) {
            fail(err, HOROVOD_INVALID_ARGUMENT, "The description of a compiled allreduce is bad.");
            return false;
        }
        batch->tensors[i] = &member->tensor;
        batch->inputs[i] = operands[i];
    }
    if (hvd_tf_name_member_size(call->rest, of) == 0) {
        fail(err, HOROVOD_INVALID_ARGUMENT, "The name of a tensor has at most 1,023 bytes.");
        return false;
    }
    for (int i = 0; i < call->n; i++) {
        struct member *member = &batch->members[i];
        hvd_tf_name_write(call->rest, i, of, member->name, sizeof(member->name));
        member->tensor.name = member->name;
    }
    if (call->tensor.prescale_factor == 0 || call->tensor.postscale_factor == 0)
        make_zeros(batch);
    return true;
}

static bool open_batch(struct batch *batch, struct hvd_strview text, const void *const *operands,
                       horovod_error_t *err)
{
    if (!hvd_tf_compiled_parse(text, &batch->call)) {
        fail(err, HOROVOD_INVALID_ARGUMENT, "The description of a compiled allreduce is bad.");
        return false;
    }
    const size_t n = (size_t)batch->call.n;
    batch->members = hvd_malloc(n, sizeof(*batch->members));
    batch->tensors = hvd_malloc(n, sizeof(const horovod_tensor_t *));
    batch->inputs = hvd_malloc(n, sizeof(const void *));
    batch->handles = hvd_malloc(n, sizeof(*batch->handles));
    if (batch->members && batch->tensors && batch->inputs && batch->handles)
        return read_members(batch, operands, err);
    fail(err, HOROVOD_OUT_OF_MEMORY, "There is no memory for a compiled allreduce.");
    return false;
}

static void perform(struct batch *batch, horovod_error_t *err)
{
    const int n = batch->call.n;
    horovod_error_t later = {0};

    if (!batch->call.is_group) {
        (void)horovod_allreduce(batch->inputs[0], batch->outputs[0], batch->tensors[0], err);
        return;
    }
    if (horovod_grouped_allreduce_async(n, batch->inputs, batch->outputs, batch->tensors,
                                        batch->handles, err) != HOROVOD_OK)
        return;
    for (int i = 0; i < n; i++)
        if (horovod_wait(batch->handles[i], &later) != HOROVOD_OK && err->status == HOROVOD_OK)
            *err = later;
}

/* Makes XLA fail the run with a text that begins with the status, because XLA has one code of
 * errors for all custom calls. */
static void put_failure(struct hvd_cxx_optional_text *failure, const horovod_error_t *err)
{
    const char *word = horovod_status_name(err->status);

    hvd_cxx_text_init(&failure->text);
    cxx.append(&failure->text, word, strlen(word));
    cxx.append(&failure->text, ": ", 2);
    cxx.append(&failure->text, err->message, strlen(err->message));
    failure->has_text = true;
}

/* The custom call. `results` are the addresses of the outputs, and behind them of the byte. */
static void allreduce(void *results, const void **operands, const char *text, size_t len,
                      void *status)
{
    struct batch batch = {.outputs = results};
    horovod_error_t err = {0};

    if (open_batch(&batch, (struct hvd_strview){.data = text, .len = len}, operands, &err)) {
        perform(&batch, &err);
        *(unsigned char *)batch.outputs[batch.call.n] = 0;
    }
    close_batch(&batch);
    if (err.status == HOROVOD_OK)
        return;
    put_failure(status, &err);
}

/* --- Registration ----------------------------------------------------------------------------- */

static bool look_up(void *library, const char *name, void *function, size_t size)
{
    void *symbol = library ? dlsym(library, name) : NULL;

    memcpy(function, &symbol, size);
    return symbol != NULL;
}

/* Whether XLA reads the statuses that are made here. */
static bool is_layout_good(void)
{
    static const char sentence[] = "longer than what fits into the text itself";
    struct hvd_cxx_optional_text status = {.has_text = false};
    struct hvd_cxx_optional_view view = cxx.message_of(&status);

    if (view.has_text)
        return false;
    status.text = hvd_cxx_text_of(sentence);
    status.has_text = true;
    view = cxx.message_of(&status);
    return view.has_text && view.len == strlen(sentence) && view.data == sentence;
}

static const char *find_functions(void)
{
    void *tensorflow = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    void *libstdcxx = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);

    if (!look_up(libstdcxx, APPEND, &cxx.append, sizeof(cxx.append)) ||
        !look_up(tensorflow, REGISTRY, &cxx.registry, sizeof(cxx.registry)) ||
        !look_up(tensorflow, REGISTER, &cxx.add, sizeof(cxx.add)) ||
        !look_up(tensorflow, GET_MESSAGE, &cxx.message_of, sizeof(cxx.message_of)))
        return "this version of TensorFlow has no registry of XLA's custom calls";
    if (!is_layout_good())
        return "this version of TensorFlow has another layout of the status of XLA's custom calls";
    return NULL;
}

const char *hvd_tf_xla_register(void)
{
    static bool is_registered;
    const struct hvd_cxx_text name = hvd_cxx_text_of("horovod_allreduce");
    const struct hvd_cxx_text platform = hvd_cxx_text_of("Host");
    void (*const function)(void *, const void **, const char *, size_t, void *) = allreduce;
    void *address = NULL;

    if (is_registered)
        return NULL;
    const char *problem = find_functions();
    if (problem)
        return problem;
    memcpy(&address, &function, sizeof(address));
    cxx.add(cxx.registry(), &name, address, &platform);
    is_registered = true;
    return NULL;
}
