package lanai

import "github.com/bobnet-go/bobnet/endpoint/internal/wire"

// unnamed is what of an entry a host writes and reads that has no virtual networks
// (Config.Unnamed): from where to where. It leaves out the station, port and endpoint, in
// place of which the number of the connection says which host it is, and the tags. The
// entry has them all the same, so that both programs are one; they cost nothing.
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

// readParts reads b from octet skip on of the entry at at.
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
