typedef int qkv_empty;
