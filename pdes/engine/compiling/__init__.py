"""How kernels are compiled: what LLVM sees at once, what is kept on disk, and whose turn it is."""
