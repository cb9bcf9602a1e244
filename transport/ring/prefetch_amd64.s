#include "textflag.h"

// func prefetch(slot unsafe.Pointer)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVQ        slot+0(FP), AX
	PREFETCHT0  64(AX)
	PREFETCHT0  128(AX)
	RET
