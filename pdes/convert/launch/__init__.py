"""Launch scripts and configs of Megatron-LM and NeMo to training jobs: readers of their forms, and what keys mean."""
