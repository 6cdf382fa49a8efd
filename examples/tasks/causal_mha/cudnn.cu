//@kernelforge 1
//@workspace qkv bf16 [B * S, F]
//@workspace att bf16 [B * S, E]
//@call matmul(D=qkv, A=x, B=wqkv^T, bias=bqkv)
//@call sdpa(O=att, Q=qkv, K=qkv, V=qkv, batch=B, heads=H, q_len=S, kv_len=S, dim=D, causal=1, \
//@    scale=1.0/sqrt(96), q_offset=0, k_offset=E, v_offset=2*E, q_stride=F, k_stride=F, v_stride=F)
//@call matmul(D=y, A=att, B=wo^T, bias=bo)
