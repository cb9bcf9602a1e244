package spmd

// Bits returns number i of the splitmix64 sequence with a seed. The result depends only on the
// arguments, so each rank can generate its own part of the input.
func Bits(seed, i uint64) uint64 {
	z := seed + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Uniform returns number i of a sequence that is uniform in [0, 1).
func Uniform(seed, i uint64) float64 { return float64(Bits(seed, i)>>11) / (1 << 53) }

// Below returns number i of a sequence of integers from 0 to n-1.
func Below(seed, i uint64, n int) int { return int(Bits(seed, i) >> 32 * uint64(n) >> 32) }
