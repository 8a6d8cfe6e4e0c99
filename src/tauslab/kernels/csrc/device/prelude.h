// Picks the device. Everything after it is one text for CPU and CUDA.
#pragma once

#ifdef __CUDACC__
#include "device/cuda.h"
#else
#include "device/cpu.h"
#endif
