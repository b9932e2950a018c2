# Prints the float tensors of a safetensors file, rounded: name [values].
import array, json, sys
data = open(sys.argv[1], "rb").read()
length = int.from_bytes(data[:8], "little")
for name, entry in sorted(json.loads(data[8:8 + length]).items()):
    begin, end = entry["data_offsets"]
    print(name, [round(x, 5) for x in array.array("f", data[8 + length + begin:8 + length + end])])
