package ethertype

import (
	"fmt"
	"strings"
)

var kindNames = [kindEnd]string{
	KindInvalid:    "invalid",
	KindData:       "data",
	KindRDMAWrite:  "rdma-write",
	KindAck:        "ack",
	KindRequest:    "request",
	KindAccept:     "accept",
	KindReject:     "reject",
	KindProbe:      "probe",
	KindProbeAck:   "probe-ack",
	KindDisconnect: "disconnect",
	KindReset:      "reset",
	KindQuery:      "query",
	KindAnswer:     "answer",
	KindEcho:       "echo",
	KindEchoReply:  "echo-reply",
	KindRDMARead:   "rdma-read",
	KindReadData:   "read-data",
	KindRetry:      "retry",
	KindPiece:      "piece",
	KindTrial:      "trial",
}

// String returns the kind's name, for example "rdma-write", or "kind-77" for an undefined kind.
func (k Kind) String() string {
	if k >= kindEnd {
		return fmt.Sprintf("kind-%d", uint8(k))
	}
	return kindNames[k]
}

// flagNames are in the order of the bits. Reserved bits have none.
var flagNames = [...]string{"last", "immediate", "packed", "ack-now", "whole-crc", "retry", "more", "", "takes-long", "unordered"}

// String returns the names of the flags, for example "last|retry", or "none". Undefined bits are
// shown in hexadecimal.
func (f Flags) String() string {
	if f == 0 {
		return "none"
	}
	var names []string
	for i, name := range flagNames {
		if f&(1<<i)&^flagsReserved != 0 {
			names = append(names, name)
		}
	}
	if rest := f & flagsReserved; rest != 0 {
		names = append(names, fmt.Sprintf("%#x", uint16(rest)))
	}
	return strings.Join(names, "|")
}

// String returns a one-line description of the frame:
//
//	02:00:00:00:00:01/5 > 02:00:00:00:00:02/9 data last seq 7 ack 3 msg 2 tag 0x1f bytes 1400..1999 of 2000
//
// It omits fields that are zero, except those that a sequenced frame always has.
func (h *Header) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s > %s %s", Addr{h.Src, h.SrcPort}, Addr{h.Dst, h.DstPort}, h.Kind)
	if h.Type != Default {
		fmt.Fprintf(&b, " type %#04x", uint16(h.Type))
	}
	if h.Flags != 0 {
		fmt.Fprintf(&b, " %s", h.Flags)
	}
	sequenced := h.Kind.Sequenced()
	field := func(name string, value uint32, always bool) {
		if value != 0 || always {
			fmt.Fprintf(&b, " %s %d", name, value)
		}
	}
	field("seq", uint32(h.Seq), sequenced)
	field("ack", uint32(h.Ack), h.Kind == KindAck)
	if h.Sack != 0 {
		fmt.Fprintf(&b, " sack %#x", h.Sack)
	}
	field("msg", uint32(h.Msg), sequenced)
	if h.Tag != 0 {
		fmt.Fprintf(&b, " tag %#x", h.Tag)
	}
	b.WriteString(h.extent())
	return b.String()
}

// extent describes which part of a message the payload is.
func (h *Header) extent() string {
	data := int(h.Size) - h.Extension()
	switch {
	case h.Flags&FlagPacked != 0:
		return fmt.Sprintf(" %d messages in %d bytes", h.Count, h.Size)
	case h.Kind == KindRDMARead:
		return fmt.Sprintf(" of %d bytes", h.Length)
	case h.Kind.Sequenced() && data == 0:
		return fmt.Sprintf(" no bytes at %d of %d", h.Offset, h.Length)
	case h.Kind.Sequenced() && data > 0:
		return fmt.Sprintf(" bytes %d..%d of %d", h.Offset, uint64(h.Offset)+uint64(data)-1, h.Length)
	}
	s := ""
	if h.Offset != 0 || h.Length != 0 {
		s = fmt.Sprintf(" offset %d length %d", h.Offset, h.Length)
	}
	if h.Count != 0 {
		s += fmt.Sprintf(" count %d", h.Count)
	}
	if h.Size != 0 {
		s += fmt.Sprintf(" size %d", h.Size)
	}
	return s
}

// Dump returns a one-line description of a frame: Header.String with the headers before the
// messages' data, and the frames that follow in the Ethernet frame. If Parse refuses the frame,
// Dump returns the reason and the fields that can be read.
func Dump(frame []byte) string {
	var h Header
	payload, err := h.Parse(frame)
	if err == nil {
		line := h.String() + h.detail(payload)
		if next := h.Next(frame); next != nil {
			line += " + " + Dump(next)
		}
		return line
	}
	why := strings.TrimPrefix(err.Error(), "ethertype: ")
	switch {
	case len(frame) < EthernetSize:
		return fmt.Sprintf("malformed: %s (%d bytes: % x)", why, len(frame), frame)
	case len(frame) < HeaderSize:
		return fmt.Sprintf("%s > %s type %#04x malformed: %s (%d bytes)", MAC(frame[fieldSrc:]), MAC(frame[fieldDst:]),
			frame[fieldType:fieldType+2], why, len(frame))
	}
	h.get(frame)
	return fmt.Sprintf("%s malformed: %s (version %d, %d bytes)", &h, why, frame[fieldVersion], len(frame))
}

// detail describes the headers before the data in the payload of a frame that Parse has accepted.
func (h *Header) detail(payload []byte) string {
	immediate := h.Flags&FlagImmediate != 0
	switch {
	case h.Kind == KindRDMAWrite:
		r, _ := ParseRDMA(payload)
		s := fmt.Sprintf(" to %#x handle %#x", r.Addr, r.Handle)
		if immediate {
			s += fmt.Sprintf(" immediate %#x", r.Immediate)
		}
		return s
	case h.Kind == KindRDMARead:
		r, _ := ParseRDMA(payload)
		return fmt.Sprintf(" from %#x handle %#x", r.Addr, r.Handle)
	case h.Kind != KindData:
		return ""
	case h.Flags&FlagPacked != 0:
		return records(payload)
	case immediate:
		return fmt.Sprintf(" immediate %#x", payload[:ImmediateSize])
	}
	return ""
}

// records lists the messages of a packed frame by size.
func records(payload []byte) string {
	var b strings.Builder
	b.WriteString(" [")
	for sep := ""; len(payload) > 0; sep = " " {
		r, _, rest, ok := NextRecord(payload)
		if !ok {
			fmt.Fprintf(&b, "%smalformed, %d bytes left", sep, len(payload))
			break
		}
		fmt.Fprintf(&b, "%s%d", sep, r.Size)
		if r.HasImm {
			fmt.Fprintf(&b, " immediate %#x", r.Immediate)
		}
		payload = rest
	}
	b.WriteString("]")
	return b.String()
}
