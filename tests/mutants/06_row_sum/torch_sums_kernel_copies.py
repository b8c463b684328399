"""values: PyTorch sums, the kernel only copies its result

symptom: always right, and never faster than PyTorch
"""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(sums_ptr, output_ptr, n_rows, BLOCK_SIZE: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    sums = tl.load(sums_ptr + rows, mask=rows < n_rows)
    tl.store(output_ptr + rows, sums, mask=rows < n_rows)


def row_sum(x):
    """The sums of the rows of a matrix, in float32."""
    sums = torch.sum(x, dim=1, dtype=torch.float32)
    output = torch.empty_like(sums)
    copy_kernel[(triton.cdiv(len(sums), 128),)](sums, output, len(sums), BLOCK_SIZE=128)
    return output
