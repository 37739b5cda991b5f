#ifndef HVD_TESTS_UNIT_OPERATOR_APP_OBJECTS_H
#define HVD_TESTS_UNIT_OPERATOR_APP_OBJECTS_H

/* API objects as text, for tests of the store and the performer. */

#define JOB(name, uid, version)                                                                    \
    "{\"apiVersion\":\"horovod.io/v1beta1\",\"kind\":\"HorovodJob\",\"metadata\":{\"namespace\":"  \
    "\"ns\",\"name\":\"" name "\",\"uid\":\"" uid "\",\"resourceVersion\":\"" version              \
    "\",\"generation\":1,\"creationTimestamp\":\"2026-01-01T00:00:00Z\"},\"spec\":{\"image\":"     \
    "\"i\",\"command\":[\"c\"],\"worker\":{\"replicas\":1}}}"

#define CHILD(name, uid, version, job, owner)                                                      \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"" name "\",\"uid\":\"" uid                     \
    "\",\"resourceVersion\":\"" version                                                            \
    "\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{"                               \
    "\"app.kubernetes.io/managed-by\":\"horovod-operator\",\"horovod.io/job-name\":\"" job         \
    "\"},\"ownerReferences\":["                                                                    \
    "{\"apiVersion\":\"horovod.io/v1beta1\",\"kind\":\"HorovodJob\",\"name\":"                     \
    "\"" job "\",\"uid\":\"" owner "\",\"controller\":true}]},\"spec\":{\"clusterIP\":\"None\"}}"

#endif
