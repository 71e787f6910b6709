"""Makes another version of a model, with other answers, for tests that change versions under load."""
import array
import json
import shutil
import struct

TENSOR = "model.layers.0.self_attn.o_proj.weight"


def make_other(of, folder):
    """Copies the model; the first layer's values are multiplied by 1.5."""
    shutil.copytree(of, folder)
    with open(f"{of}/model.safetensors", "rb") as file:
        header_bytes = file.read(8)
        text = file.read(struct.unpack("<Q", header_bytes)[0])
        body = bytearray(file.read())
    tensor = json.loads(text)[TENSOR]
    begin, end = tensor["data_offsets"]
    if tensor["dtype"] != "F32":
        raise RuntimeError(f"{TENSOR} is {tensor['dtype']}; expected F32")
    body[begin:end] = array.array(
        "f", (1.5 * value for value in array.array("f", bytes(body[begin:end])))
    ).tobytes()
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(header_bytes + text + body)
