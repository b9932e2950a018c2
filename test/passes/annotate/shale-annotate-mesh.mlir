// RUN: shale-opt %s "--shale-annotate-mesh=mesh=replica=2,fsdp=4 shard=hybrid" | FileCheck %s
// RUN: shale-opt %s "--shale-annotate-mesh=mesh=fsdp=4 shard=full reshard-after-forward=false" | FileCheck %s --check-prefix=KEEP
// RUN: shale-opt %s "--shale-annotate-mesh=mesh=fsdp=1 shard=full keep-single-rank-collectives=true" | FileCheck %s --check-prefix=ONE
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=fsdp=4 shard=hybrid" 2>&1 | FileCheck %s --check-prefix=HYBRID
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=fsdp=0" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=fsdp=1048576,tp=1048576" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=fsdp=2,fsdp=2" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=dp=2 shard=none" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=fsdp=2 shard=zero3" 2>&1 | FileCheck %s --check-prefix=STRATEGY
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=replica=2 shard=grad" 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: shale-opt %s "--shale-annotate-mesh=mesh=hosts:replica=2,gpus:shard=4,rest:tensor=1" | FileCheck %s --check-prefix=NAMES
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=gpus:zero=2" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=gpus:=2" 2>&1 | FileCheck %s --check-prefix=KINDLESS
// RUN: not shale-opt %s "--shale-annotate-mesh=mesh=:shard=2" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: shale-opt %s "--shale-annotate-mesh=mesh=fsdp=2,gpus:shard=2" | FileCheck %s --check-prefix=SHARDS

// NAMES: dist.mesh @mesh <[replica "hosts"=2, shard "gpus"=4, tensor "rest"=1]>
// KIND: mesh 'gpus:zero=2': axis 'gpus' is of kind 'zero'; expected replica, shard, tensor or expert
// KINDLESS: axis 'gpus' is of kind ''; expected replica, shard, tensor or expert
// SHARDS: dist.mesh @mesh <[shard "fsdp"=2, shard "gpus"=2]>
// CHECK: module attributes {dist.strategy = #dist.strategy<full>}
// CHECK: dist.mesh @mesh <[replica "replica"=2, shard "fsdp"=4]>
// KEEP: module attributes {dist.keep_gathered, dist.strategy = #dist.strategy<full>}
// ONE: module attributes {dist.keep_single_rank, dist.strategy = #dist.strategy<full>}
// HYBRID: strategy 'hybrid' needs a mesh with a replica axis, for example replica=2,fsdp=4
// SIZE: is not of the form axis=size,axis=size
// TWICE: has two axes 'fsdp'
// UNKNOWN: mesh 'dp=2' has an axis 'dp' of unknown kind: use the names replica and fsdp, or write dp:shard=2 or dp:replica=2
// STRATEGY: for the --shard option: 'zero3' is not one of none, optimizer, grad, full, hybrid
// AXIS: strategy 'grad' needs a mesh with a shard axis, for example fsdp=4, not 'replica=2'
module {
}
