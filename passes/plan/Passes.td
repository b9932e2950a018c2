//===- Passes.td - Passes of the plan stage -------------------------------===//
#ifndef SHALE_PLAN_PASSES_TD
#define SHALE_PLAN_PASSES_TD

include "lib/Options/Options.td"
include "mlir/Pass/PassBase.td"

def PlanPass : Pass<"shale-plan", "::mlir::ModuleOp"> {
  let summary = "Assigns every value a buffer: lowers functions of tensors to rt";
  let description = [{
    Assumes a scheduled function. Values that may share bytes become one allocation:
    reshapes and barriers share that of their operand, parameters that of their
    gathered unit, results that of an operand without later readers, gradients that
    of the packed gradient of their unit, new state that of the old state.
    Allocations get offsets in one arena, best fit in order of decreasing size. A
    collective's buffers are live from its start to its wait. The state block is laid
    out once for the module.

    The result of `nn.tanh` is written over its operand, and the new weight over the old one.

    Before:

    ```mlir
    nn.state @weight role = param type = tensor<4x4xf32>
    func.func @step(%x: tensor<4x4xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %weight: tensor<4x4xf32> {nn.state = @weight})
        -> (tensor<4x4xf32> {nn.state = @weight}) {
      %h = nn.matmul %x, %weight : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %y = nn.tanh %h : tensor<4x4xf32>
      %new = nn.sub %weight, %y : tensor<4x4xf32>
      return %new : tensor<4x4xf32>
    }
    ```

    After:

    ```mlir
    module attributes {rt.arena_bytes = 64 : i64, rt.state_bytes = 64 : i64, rt.threads = 1 : i64} {
      nn.state @weight role = param type = tensor<4x4xf32>
      rt.func @step inputs = [{name = "x", binding = "", type = tensor<4x4xf32>, batch_dim = -1 : i64} ] hyper = [] metrics = []
          attributes {signature = (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>,
                      arg_attrs = [{nn.role = #nn.role<input>, nn.name = "x"}, {nn.state = @weight} ],
                      res_attrs = [{nn.state = @weight} ]} {
        %x = rt.buffer input index = 0 fixed "x" : memref<4x4xf32>
        %weight = rt.buffer state @"weight@slot" parameters "weight" : memref<4x4xf32>
        %h = rt.buffer arena activations "matmul" : memref<4x4xf32>
        rt.gemm %x, %weight to %h : memref<4x4xf32>, memref<4x4xf32> to memref<4x4xf32>
        rt.launch @tanh_0(%h) to (%h) : (memref<4x4xf32>) -> memref<4x4xf32>
        rt.launch @sub_1(%weight, %h) to (%weight) : (memref<4x4xf32>, memref<4x4xf32>) -> memref<4x4xf32>
      }
      rt.slot @"weight@slot" parameters offset = 0 : tensor<4x4xf32>
      rt.kernel @tanh_0(%h: tensor<4x4xf32>) -> tensor<4x4xf32> aliases [0] {
        %y = nn.tanh %h : tensor<4x4xf32>
        rt.yield %y : tensor<4x4xf32>
      }
      rt.kernel @sub_1(%weight: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> aliases [0] {
        %new = nn.sub %weight, %y : tensor<4x4xf32>
        rt.yield %new : tensor<4x4xf32>
      }
    }
    ```
  }];
  let options = FlagsOf<"shale-plan">.options;
  let dependentDialects = ["::shale::rt::RTDialect", "::shale::nn::NNDialect"];
}

def VerifyPlanPass : Pass<"shale-verify-plan", "::mlir::ModuleOp"> {
  let summary = "Exit contract of plan: no two live buffers share bytes, no kernel overwrites what it still reads";
  let description = [{
    Computes from `rt` alone when each arena buffer is live (from its first access to its last; a collective accesses its
    buffers until its wait). Fails if two buffers that are live at once overlap, if a buffer is read before it is written,
    or if a collective is never waited for.

    Also fails if a launch writes over bytes of an input. One exception is allowed: the whole buffer of the input named by
    the kernel's `aliases`, if each element of that input is read only for the element at its own index, or by a reduction
    of its own row, which is complete before the row is written. The ops' element maps (`IndexedOpInterface`) tell which elements are
    read; they are evaluated for a sample of elements.

    The last bytes of `a` are those of `b`, and `a` is read after `b` is written:

    Refused:

    ```mlir
    rt.func @step inputs = [] hyper = [] metrics = [] {
      %a = rt.buffer arena activations "a" : memref<32xf32>
      %b = rt.buffer arena offset = 64 activations "b" : memref<16xf32>
      %c = rt.buffer arena offset = 128 activations "c" : memref<32xf32>
      rt.zero %a : memref<32xf32>
      rt.zero %b : memref<16xf32>
      rt.copy %a to %c : memref<32xf32> to memref<32xf32>
    }
    ```

    with "'b' shares bytes with a buffer that is live at the same time".

    The kernel may write over its first input, but not over its second one:

    Refused:

    ```mlir
    rt.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> aliases [0] {
      %sum = nn.add %x, %y : tensor<16xf32>
      rt.yield %sum : tensor<16xf32>
    }
    rt.func @step inputs = [] hyper = [] metrics = [] {
      %a = rt.buffer arena activations "a" : memref<16xf32>
      %b = rt.buffer arena offset = 64 activations "b" : memref<16xf32>
      rt.zero %a : memref<16xf32>
      rt.zero %b : memref<16xf32>
      rt.launch @add(%a, %b) to (%b) : (memref<16xf32>, memref<16xf32>) -> memref<16xf32>
    }
    ```

    with "writes output 0 over input 1, which it reads".
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::shale::nn::NNDialect"];
}

def VerifyStreamsPass : Pass<"shale-verify-streams", "::mlir::ModuleOp"> {
  let summary = "Exit contract of plan: every access is ordered after conflicting work of other streams";
  let description = [{
    A planned program runs on streams: copies to the host and copies to the device have one each, and everything else but
    collectives is on the compute stream. Collectives may be on any streams. Started work waits for the compute stream, and
    the compute stream waits for it at `rt.wait`. A target may use fewer streams.

    Fails if an op accesses bytes that unfinished work of another stream writes, or writes bytes that such work reads. The
    error names the op, the buffer and the work in flight. Bytes are compared by their place in memory; slices of one
    buffer count as the whole buffer. Also fails if work is in flight when the function returns, and if a wait for a
    collective is before the start of another one of its bucket, because a bucket is exchanged as a whole.

    All ranks execute the same ops in the same order, so collectives cannot be started in different orders.

    `a` is written while it is copied to the host:

    Refused:

    ```mlir
    module attributes {rt.host_arena_bytes = 64 : i64} {
      rt.func @step inputs = [] hyper = [] metrics = [] {
        %a = rt.buffer arena activations "a" : memref<16xf32>
        %h = rt.buffer arena host activations "a" : memref<16xf32>
        rt.zero %a : memref<16xf32>
        %t = rt.transfer %a to %h index = 0 name = "a" : memref<16xf32> to memref<16xf32>
        rt.zero %a : memref<16xf32>
        rt.wait %t
      }
    }
    ```

    with "writes 'a' while another stream reads it".
  }];
}

#endif // SHALE_PLAN_PASSES_TD
