// Coefficients of the pair 5(4) of Dormand & Prince (1980), J. Comput. Appl. Math. 6, 19. The last stage is the
// first of the next step.
//
//     paper             here
//     a_ij, c_i         STAGE_STATE, STAGE_TIME
//     b_i               the last row of STAGE_STATE
//     b_i - b_i*        STAGE_ERROR
#pragma once

#include "device/prelude.h"

constexpr int STAGES = 7;

// Coefficients of stage s at earlier ones stand from s (s - 1) / 2 on; the last are the solution's.
TABLE double STAGE_STATE[21] = {
    1.0 / 5,        3.0 / 40,        9.0 / 40,        44.0 / 45,    -56.0 / 15,    32.0 / 9,
    19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561,  -212.0 / 729, 9017.0 / 3168, -355.0 / 33,
    46732.0 / 5247, 49.0 / 176,      -5103.0 / 18656, 35.0 / 384,   0.0,           500.0 / 1113,
    125.0 / 192,    -2187.0 / 6784,  11.0 / 84};
TABLE double STAGE_TIME[STAGES] = {0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1, 1};
// The weights of order 5 minus those of order 4.
TABLE double STAGE_ERROR[STAGES] = {71.0 / 57600,      0.0,        -71.0 / 16695, 71.0 / 1920,
                                    -17253.0 / 339200, 22.0 / 525, -1.0 / 40};
// Dense output of order 4 (Hairer, Norsett & Wanner 1993, II.6): the weights of the last coefficient, by stage.
TABLE double DENSE[STAGES] = {-12715105075.0 / 11282082432,  0.0,
                              87487479700.0 / 32700410799,   -10690763975.0 / 1880347072,
                              701980252875.0 / 199316789632, -1453857185.0 / 822651844,
                              69997945.0 / 29380423};
