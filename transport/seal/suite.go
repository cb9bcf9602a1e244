package seal

import "golang.org/x/sys/cpu"

// preferred returns the suites that are fast on this processor. Every station supports
// ChaCha20-Poly1305.
func preferred() suite {
	if cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ || cpu.ARM64.HasAES && cpu.ARM64.HasPMULL {
		return suitesAll
	}
	return suiteChaCha
}

// choose returns the suite for a session between two stations: AES if it is fast on both.
func choose(own, theirs suite) suite {
	if own&theirs&suiteAES != 0 {
		return suiteAES
	}
	return suiteChaCha
}
