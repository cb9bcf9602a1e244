package transport

// LongLink is implemented by links that can carry frames longer than their MTU to some stations, up to 65,461
// bytes after the Ethernet header. A link does not know which stations these are, and long frames to others
// are lost. A wrapper that does not forward long frames does not implement LongLink.
type LongLink interface {
	Link

	// StartLong makes Send accept long frames from now on: frames longer than Info().MTU allows. It reports whether
	// the link can. It may be called only before the first Send, and not at the same time as other methods. Frames
	// received before the call may be lost, and views of them read as zeros. After the call, even if it returns
	// false, Recv may return only the beginning of a frame that is longer than LongBegin.
	StartLong() bool

	// ReceiveLong makes the link receive long frames if on is true, and otherwise stops that. It reports
	// whether the link receives long frames after the call. It always reports false before StartLong has
	// returned true. After a stop, the link may be able to receive long frames again only some 100 ms later:
	// then the caller must call ReceiveLong(true) again. No call waits for the kernel to make the change.
	// Long frames that have arrived remain readable. ReceiveLong may be called any number of times, but not
	// at the same time as Send or Recv.
	//
	// While a link receives long frames, the kernel may have additional work for each packet of another
	// protocol. A new link therefore does not receive them.
	ReceiveLong(on bool) bool

	// Rest returns how many bytes are missing at the end of the last view of the last Recv, usually 0. A view
	// with missing bytes is the beginning of a frame, and holds at least LongBegin bytes.
	Rest() int

	// Cut reports whether the frame of the last incomplete view has arrived in segments, because the path cuts
	// long frames. Such a frame is lost if one of its segments is.
	Cut() bool

	// Fetch copies the frame of the incomplete view to parts, in order, starting at offset from of
	// the frame. The offset is after the header and within the view. Fetch reports whether it has
	// filled the parts. If not, the frame is lost and the parts are undefined. It may be called
	// once for each frame, but not at the same time as Send or Recv. The next Recv drops a frame
	// that was not fetched. The link does not keep parts.
	Fetch(from int, parts [][]byte) bool
}

// LongBegin is the least number of bytes in an incomplete view: the headers that may precede the
// data.
const LongBegin = 128
