"""How long kernels take: HeteroSim's classes (Table 1), bounded transfer to unfitted GPUs (equation 5).

GEMM and attention: gamma F / FLOPS + delta, but not less than their bytes take. Elementwise, norm, optimizer:
gamma M / bandwidth + delta. One delta for all, the time between the starts of two kernels of a stream.
"""

from models.compute.devices import Device
from models.compute.operators import Kernel

PS_PER_S = 10**12


def kernel_ps(kernel: Kernel, device: Device) -> int:
    """Time of one kernel on a GPU, rounded up to 1 ps."""
    fit = device.fit
    memory_ps = fit.memory_gamma * kernel.hbm_bytes / device.hbm_bytes_per_s * PS_PER_S
    gamma = {"gemm": fit.gemm_gamma, "attention": fit.attention_gamma}.get(kernel.kind, 0.0)
    work_ps = gamma * kernel.flops / device.peak(kernel.dtype) * PS_PER_S
    return int(max(work_ps, memory_ps)) + 1 + kernel.n_launch * fit.launch_ps
