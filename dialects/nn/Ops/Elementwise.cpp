//===- Elementwise.cpp - One result element from one of each operand ------===//
#include "dialects/nn/NN.h"
