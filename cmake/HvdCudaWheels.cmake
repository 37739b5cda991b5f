# The headers of CUDA and NCCL and NCCL's library, from the wheels that script/bootstrap python puts into
# the cache. Nothing is built with them but tests that compare our declarations.
set(cache_home $ENV{XDG_CACHE_HOME})
if(NOT cache_home)
  set(cache_home $ENV{HOME}/.cache)
endif()
file(GLOB HVD_CUDA_WHEELS ${cache_home}/horovod/python/cuda/lib/python3*/site-packages/nvidia)
set(HVD_HAS_CUDA_WHEELS FALSE)
if(EXISTS "${HVD_CUDA_WHEELS}/cu13/include/cuda.h" AND EXISTS "${HVD_CUDA_WHEELS}/nccl/include/nccl.h")
  set(HVD_HAS_CUDA_WHEELS TRUE)
endif()
