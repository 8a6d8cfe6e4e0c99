// Picks the device. Everything after it is one text for CPU and CUDA.
#pragma once

#ifdef __CUDACC__
#include "cuda.h"
#else
#include "cpu.h"
#endif
