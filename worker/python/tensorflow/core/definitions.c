/*
 * The table of operations, in the notation of TensorFlow. Inputs, outputs and attributes keep their
 * order, because callers pass them by position. A type, an attribute or a default that changes here
 * makes saved graphs useless: only add attributes with defaults behind the others.
 */
#include "worker/python/tensorflow/core/definitions.h"

#define SCOPE "ignore_name_scope: bool = False"
#define SET "process_set_id: int = 0"
#define GROUP "num_tensors: int"
#define FACTORS "prescale_factor: float", "postscale_factor: float"
#define OURS "tensor_name: string = ''", "blocking: bool = false"

static const char elements[] =
    "T: {uint8, int8, uint16, int16, int32, int64, float16, float32, float64, bool, bfloat16, "
    "uint32, uint64}";

const struct hvd_tf_definition hvd_tf_definitions[] = {
    {"HorovodAllreduce",
     HVD_TF_ALLREDUCE,
     HVD_TF_SHAPES_SAME,
     {"tensor: T"},
     {"sum: T"},
     {elements, "reduce_op: int", FACTORS, SCOPE, SET, OURS}},
    {"HorovodGroupedAllreduce",
     HVD_TF_ALLREDUCE,
     HVD_TF_SHAPES_SAME,
     {"tensors: num_tensors*T"},
     {"sum: num_tensors*T"},
     {elements, "reduce_op: int", FACTORS, SCOPE, GROUP, SET, OURS}},
    {"HorovodAllgather",
     HVD_TF_ALLGATHER,
     HVD_TF_SHAPES_ROWS,
     {"tensor: T"},
     {"output: T"},
     {elements, SCOPE, SET, OURS}},
    {"HorovodGroupedAllgather",
     HVD_TF_ALLGATHER,
     HVD_TF_SHAPES_ROWS,
     {"tensors: num_tensors*T"},
     {"outputs: num_tensors*T"},
     {elements, SCOPE, GROUP, SET, OURS}},
    {"HorovodBroadcast",
     HVD_TF_BROADCAST,
     HVD_TF_SHAPES_SAME,
     {"tensor: T"},
     {"output: T"},
     {elements, "root_rank: int", SCOPE, SET, OURS}},
    {"HorovodBroadcastInplace",
     HVD_TF_INPLACE,
     HVD_TF_SHAPES_SAME,
     {"tensor_refs: Ref(num_variables * T)"},
     {"output_refs: Ref(num_variables * T)"},
     {elements, "root_rank: int", SET, "num_variables: int", "variable_names: list(string)"}},
    {"HorovodBroadcastInplaceResource",
     HVD_TF_INPLACE,
     HVD_TF_SHAPES_NONE,
     {"resources: num_variables * resource"},
     {NULL},
     {"root_rank: int", SET, "num_variables: int", "variable_names: list(string)"}},
    {"HorovodReducescatter",
     HVD_TF_REDUCESCATTER,
     HVD_TF_SHAPES_ROWS,
     {"tensor: T"},
     {"output: T"},
     {elements, "reduce_op: int", SCOPE, FACTORS, SET, OURS}},
    {"HorovodGroupedReducescatter",
     HVD_TF_REDUCESCATTER,
     HVD_TF_SHAPES_ROWS,
     {"tensors: num_tensors*T"},
     {"outputs: num_tensors*T"},
     {elements, "reduce_op: int", SCOPE, GROUP, SET, FACTORS, OURS}},
    {"HorovodAlltoall",
     HVD_TF_ALLTOALL,
     HVD_TF_SHAPES_EXCHANGE,
     {"tensor: T", "splits: int32"},
     {"output: T", "received_splits: int32"},
     {elements, SCOPE, SET, OURS}},
    {"HorovodJoin", HVD_TF_JOIN, HVD_TF_SHAPES_SCALAR, {NULL}, {"output: int32"}, {NULL}},
    {"HorovodSize", HVD_TF_SIZE, HVD_TF_SHAPES_SCALAR, {NULL}, {"size: int32"}, {SET}},
    {"HorovodProcessSetIncluded",
     HVD_TF_INCLUDED,
     HVD_TF_SHAPES_SCALAR,
     {NULL},
     {"included: int32"},
     {SET}},
    {"HorovodLocalSize",
     HVD_TF_LOCAL_SIZE,
     HVD_TF_SHAPES_SCALAR,
     {NULL},
     {"local_size: int32"},
     {NULL}},
    {"HorovodRank", HVD_TF_RANK, HVD_TF_SHAPES_SCALAR, {NULL}, {"rank: int32"}, {NULL}},
    {"HorovodLocalRank",
     HVD_TF_LOCAL_RANK,
     HVD_TF_SHAPES_SCALAR,
     {NULL},
     {"local_rank: int32"},
     {NULL}},
};

const size_t hvd_tf_n_definitions = sizeof(hvd_tf_definitions) / sizeof(hvd_tf_definitions[0]);
