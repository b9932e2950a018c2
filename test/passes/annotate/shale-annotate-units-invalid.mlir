// RUN: not shale-opt %s --shale-annotate-units=unit=layer 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not shale-opt %s --shale-annotate-units=unit=size:many 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not shale-opt %s --shale-annotate-units=unit=match:mpl 2>&1 | FileCheck %s --check-prefix=MATCH
// RUN: not shale-opt %s --shale-annotate-units=unit=class:Block 2>&1 | FileCheck %s --check-prefix=CLASS
// POLICY: for the --unit option: 'layer' is not one of block, class:NAME, size:N, match:REGEX
// SIZE: for the --unit option: size:many: expected a number of parameters such as 100M
// MATCH: unit policy match: 'mpl' matches no parameter; similar names: 'h.0.mlp.w'
// CLASS: the model does not say the classes of its modules
nn.state @"h.0.mlp.w" role = param type = tensor<4x8xf32>
