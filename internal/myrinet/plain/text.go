package plain

import (
	"bytes"
	"fmt"
	"io"
)

// WriteTo writes the snapshot as human-readable text: the card, its link and cable, and the host's
// mapper. It implements io.WriterTo.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	s.WriteCard(&b, func() {
		fmt.Fprintf(&b, "  rings  frames to send %d, received %d; invalid doorbells %d\n", s.ToSend, s.Received, s.BadDoorbells)
	})
	return b.WriteTo(w)
}
