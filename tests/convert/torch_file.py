"""Writes files of torch.save without PyTorch: an archive of stored entries with a pickle of protocol 2."""
import struct
import zipfile

import numpy as np


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def integer(value):
    return b"J" + struct.pack("<i", value)


def integers(values):
    return b"(" + b"".join(integer(value) for value in values) + b"t"


def tensor(array, key):
    """The steps that rebuild an array. An array with other strides than row-major keeps them."""
    elements = array.size
    strides = [stride // 4 for stride in array.strides]
    storage = (
        b"("
        + text("storage")
        + b"ctorch\nFloatStorage\n"
        + text(key)
        + text("cpu")
        + integer(elements)
        + b"tQ"
    )
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + integer(0)
        + integers(array.shape)
        + integers(strides)
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


def save(path, tensors):
    """Writes {"model_state_dict": tensors}; `tensors` are float32 arrays by name, row-major or transposed."""
    steps = b"\x80\x02}(" + text("model_state_dict") + b"ccollections\nOrderedDict\n)R("
    steps += b"".join(text(name) + tensor(array, str(i)) for i, (name, array) in enumerate(tensors.items()))
    steps += b"u" + text("epoch") + integer(3) + b"u."
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", steps)
        for i, array in enumerate(tensors.values()):
            data = array if array.flags["C_CONTIGUOUS"] else array.T
            assert data.flags["C_CONTIGUOUS"] and data.dtype == np.float32
            archive.writestr(f"archive/data/{i}", data.tobytes())
        archive.writestr("archive/version", "3\n")
