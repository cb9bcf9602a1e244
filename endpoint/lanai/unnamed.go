package lanai

import "github.com/bobnet-go/bobnet/endpoint/internal/wire"

// unnamed lists the parts of an entry that a host without virtual networks reads and writes
// (Config.Unnamed), as ranges. It omits station, port and endpoint, because the number of the
// connection identifies the host, and the tags. Both variants of the program have the same entries;
// the omitted parts cost nothing.
var unnamed = [...][2]int{
	{0, 4},
	{entryHead, entryHead + connSize + wire.BaseSize},
	{entryHead + connSize + wire.BaseSize + wire.TagsSize, entrySize},
}

// writeParts writes b to the entry at at.
func (d *driver) writeParts(e *end, at int, b []byte) {
	if !d.cfg.Unnamed || e.state != endResident {
		e.write(at, b)
		return
	}
	copy(e.frame.page.Bytes()[at:], b)
	for _, part := range unnamed {
		if from, to := part[0], min(part[1], len(b)); from < to {
			e.write(at+from, b[from:to])
		}
	}
}

// readParts reads b from byte skip on of the entry at at.
func (d *driver) readParts(e *end, at int, b []byte, skip int) {
	if !d.cfg.Unnamed || e.state != endResident {
		e.read(at+skip, b)
		return
	}
	copy(b, e.frame.page.Bytes()[at+skip:])
	for _, part := range unnamed {
		if from, to := max(part[0], skip), min(part[1], skip+len(b)); from < to {
			e.read(at+from, b[from-skip:to-skip])
		}
	}
}
