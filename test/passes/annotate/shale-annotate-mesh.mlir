// RUN: shale-opt %s "--shale-annotate-mesh=mesh=replica=2,fsdp=4 strategy=hybrid" | FileCheck %s
// RUN: shale-opt %s "--shale-annotate-mesh=mesh=fsdp=4 strategy=full reshard-after-forward=false" | FileCheck %s --check-prefix=KEEP
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=fsdp=4 strategy=hybrid" 2>&1 | FileCheck %s --check-prefix=HYBRID
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=fsdp=0" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=fsdp=1048576,tp=1048576" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=fsdp=2,fsdp=2" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=dp=2 strategy=none" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=fsdp=2 strategy=zero3" 2>&1 | FileCheck %s --check-prefix=STRATEGY
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=replica=2 strategy=grad" 2>&1 | FileCheck %s --check-prefix=AXIS

// CHECK: module attributes {dist.strategy = "full"}
// CHECK: dist.mesh @mesh <["replica"=2, "fsdp"=4]>
// KEEP: module attributes {dist.keep_gathered, dist.strategy = "full"}
// HYBRID: strategy 'hybrid' needs a mesh with a replica axis, for example replica=2,fsdp=4
// SIZE: is not of the form axis=size,axis=size
// TWICE: has two axes 'fsdp'
// UNKNOWN: mesh 'dp=2' has an axis 'dp', {{.*}}; the axes are replica and fsdp (the batch) and tp
// STRATEGY: strategy 'zero3' is none of none, optimizer, grad, full, hybrid
// AXIS: strategy 'grad' splits over axis 'fsdp', which mesh 'replica=2' has not
module {
}
