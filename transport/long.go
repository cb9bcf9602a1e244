package transport

// LongLink is implemented by links that can carry frames longer than their MTU to
// some stations, up to ethertype.LongMTU. Nothing tells which these are: long
// frames to others are lost. Wrappers that do not pass them on hide the interface.
type LongLink interface {
	Link

	// StartLong has Send take long frames from now on, those of up to
	// ethertype.LongMTU that Info().MTU does not allow. It reports whether the link
	// can. It is called before the first Send, if at all.
	StartLong() bool

	// Rest returns how many bytes of the last view of the last Recv are missing at
	// its end, 0 as a rule. Such a view is the beginning of a long frame, and holds
	// at least LongBegin bytes.
	Rest() int

	// Fetch copies what lies in the frame of which bytes are missing to parts, in
	// order, from offset from on, which is behind the header and within the view. It
	// reports whether the parts are full; else the frame is lost, and they hold
	// anything. It can be called once, and not at the same time as Send or Recv. What
	// is not fetched is dropped by the next Recv. Of parts nothing is kept.
	Fetch(from int, parts [][]byte) bool
}

// LongBegin is how many bytes the view of a long frame holds at the least: the
// header and what may precede the data.
const LongBegin = 128
