package ethertype

// Seq is a 32-bit number that wraps around: the sequence number of a frame or the number of a
// message. Two of them can be compared if they are less than 2^31 apart; every window in Bobnet is
// smaller by orders of magnitude.
type Seq uint32

// Less reports whether s comes before t.
func (s Seq) Less(t Seq) bool { return int32(s-t) < 0 }

// LessEq reports whether s comes before t or equals t.
func (s Seq) LessEq(t Seq) bool { return int32(s-t) <= 0 }

// Sub returns the signed distance from t to s: s = t + Sub.
func (s Seq) Sub(t Seq) int { return int(int32(s - t)) }
