package transport

// LongLink is implemented by links that can carry frames longer than their MTU to
// some stations, up to 65,481 bytes behind the Ethernet header. A link does not know which stations these are,
// and long frames to others are lost. A wrapper that does not pass them on does not
// implement LongLink.
type LongLink interface {
	Link

	// StartLong makes Send take long frames from now on: those longer than Info().MTU
	// allows. It reports whether the link can. It is called
	// before the first Send, if at all, and not at the same time as other methods. What
	// has arrived before may be lost, and views of it read as zeros. From now on, and also if it returns false, Recv may give
	// only the beginning of a frame that is longer than LongBegin.
	StartLong() bool

	// Rest returns how many bytes of the last view of the last Recv are missing at
	// its end, 0 as a rule. Such a view is the beginning of a frame, and holds
	// at least LongBegin bytes.
	Rest() int

	// Fetch copies the frame whose view lacks bytes to parts, in order, beginning at
	// offset from of the frame, which is behind the header and within the view. It
	// reports whether the parts are full; if not, the frame is lost, and what they hold
	// is undefined. It can be called once for a frame, and not at the same time as Send
	// or Recv. The next Recv drops a frame that was not fetched. The link does not keep
	// parts.
	Fetch(from int, parts [][]byte) bool
}

// LongBegin is the least number of bytes in a view that lacks some: the header and what
// may precede the data.
const LongBegin = 128
