"""Prints a program whose gradient is a sum over ranks plus a parameter, added to itself N times: doubled_sum.py N."""
import sys

N = int(sys.argv[1])
TYPE = "tensor<4xf32>"
print(f"""dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = {TYPE}
nn.state @m role = moment("momentum") type = {TYPE} {{of = @w}}
func.func @step(%part: {TYPE}, %w: {TYPE} {{nn.state = @w}}, %m: {TYPE} {{nn.state = @m}}, %lr: tensor<f32>, %on: tensor<i1>)
    -> ({TYPE} {{nn.state = @w}}, {TYPE} {{nn.state = @m}}) {{
  %sum = dist.all_reduce sum %part over "fsdp" : {TYPE}
  %d0 = nn.add %sum, %w : {TYPE}""")
for i in range(N):
    print(f"  %d{i + 1} = nn.add %d{i}, %d{i} : {TYPE}")
print(f"""  %new_w, %new_m = nn.sgd %w, %d{N}, %m enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0>
      : {TYPE}, tensor<f32>
  return %new_w, %new_m : {TYPE}, {TYPE}
}}""")
