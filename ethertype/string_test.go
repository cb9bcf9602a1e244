package ethertype

import (
	"strings"
	"testing"
)

var (
	alice = Addr{MAC{0x02, 0, 0, 0, 0, 1}, 5}
	bob   = Addr{MAC{0x02, 0, 0, 0, 0, 2}, 9}
)

const between = "02:00:00:00:00:01/5 > 02:00:00:00:00:02/9 "

// from completes a header with who sends it to whom.
func from(h Header) Header {
	h.Src, h.SrcPort, h.Dst, h.DstPort, h.Type = alice.MAC, alice.Port, bob.MAC, bob.Port, Default
	return h
}

func TestHeaderString(t *testing.T) {
	for _, test := range []struct {
		h    Header
		want string
	}{
		{Header{Kind: KindData, Flags: FlagLast, Seq: 7, Ack: 3, Msg: 2, Tag: 0x1f, Offset: 1400, Length: 2000, Size: 600},
			"data last seq 7 ack 3 msg 2 tag 0x1f bytes 1400..1999 of 2000"},
		{Header{Kind: KindData}, "data seq 0 msg 0 no bytes at 0 of 0"},
		{Header{Kind: KindData, Flags: FlagImmediate | FlagLast, Length: 4, Size: 8},
			"data last|immediate seq 0 msg 0 bytes 0..3 of 4"},
		{Header{Kind: KindData, Flags: FlagPacked, Seq: 1, Msg: 4, Count: 3, Size: 96},
			"data packed seq 1 msg 4 3 messages in 96 bytes"},
		{Header{Kind: KindRDMAWrite, Seq: 1, Length: 100, Size: 116}, "rdma-write seq 1 msg 0 bytes 0..99 of 100"},
		{Header{Kind: KindRDMARead, Seq: 1, Msg: 3, Length: 100, Size: 16}, "rdma-read seq 1 msg 3 of 100 bytes"},
		{Header{Kind: KindReadData, Flags: FlagLast, Seq: 2, Msg: 3, Offset: 96, Length: 100, Size: 4},
			"read-data last seq 2 msg 3 bytes 96..99 of 100"},
		{Header{Kind: KindAck, Sack: 5}, "ack ack 0 sack 0x5"},
		{Header{Kind: KindProbe, Size: 1438}, "probe size 1438"},
		{Header{Kind: KindEcho, Length: 3, Count: 1}, "echo offset 0 length 3 count 1"},
		{Header{Kind: 77, Flags: flagEnd | FlagRetry}, "kind-77 retry|0x400"},
	} {
		h := from(test.h)
		if got := h.String(); got != between+test.want {
			t.Errorf("got  %s\nwant %s", got, between+test.want)
		}
	}
	h := from(Header{Kind: KindReset})
	h.Type = 0x88b6
	if got, want := h.String(), between+"reset type 0x88b6"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEveryKindAndFlagHasAName(t *testing.T) {
	seen := make(map[string]bool)
	for k := range kindEnd {
		name := k.String()
		if name == "" || strings.HasPrefix(name, "kind-") || seen[name] {
			t.Errorf("kind %d is called %q", k, name)
		}
		seen[name] = true
	}
	if 1<<len(flagNames) != flagEnd {
		t.Errorf("%d flags have names, the last is %#x", len(flagNames), uint16(flagEnd-1))
	}
	for want, f := range map[string]Flags{
		"none": 0, "last": FlagLast, "immediate": FlagImmediate, "packed": FlagPacked, "ack-now": FlagAckNow,
		"whole-crc": FlagWholeCRC, "retry": FlagRetry, "last|retry": FlagLast | FlagRetry, "0x8000": 1 << 15, "more|0x80": 0xc0, "last|0x80": FlagLast | 0x80,
	} {
		if got := f.String(); got != want {
			t.Errorf("flags %#x are %q, want %q", uint16(f), got, want)
		}
	}
}

func TestDump(t *testing.T) {
	write := make([]byte, RDMASize+4)
	RDMA{Addr: 0x7f00, Handle: 3, Immediate: 0xbeef}.Put(write)
	two := append(packed("one", "four"), 1, 2, 3)
	Record{Size: 4, Immediate: 0xa, HasImm: true}.Put(two[Packed(3):])
	badCRC := encode(from(Header{Kind: KindEcho}), nil)
	badCRC[fieldCRC] ^= 1
	badVersion := encode(from(Header{Kind: KindEcho}), nil)
	badVersion[fieldVersion] = 9
	for _, test := range []struct {
		frame []byte
		want  string
	}{
		{encode(from(Header{Kind: KindData, Length: 2}), []byte("hi")), between + "data seq 0 msg 0 bytes 0..1 of 2"},
		{encode(from(Header{Kind: KindData, Flags: FlagImmediate, Length: 1}), []byte{0, 0, 1, 2, 9}),
			between + "data immediate seq 0 msg 0 bytes 0..0 of 1 immediate 0x00000102"},
		{encode(from(Header{Kind: KindRDMAWrite, Flags: FlagImmediate, Length: 4}), write),
			between + "rdma-write immediate seq 0 msg 0 bytes 0..3 of 4 to 0x7f00 handle 0x3 immediate 0xbeef"},
		{encode(from(Header{Kind: KindRDMARead, Length: 9}), write[:RDMASize]),
			between + "rdma-read seq 0 msg 0 of 9 bytes from 0x7f00 handle 0x3"},
		{encode(from(Header{Kind: KindData, Flags: FlagPacked, Count: 2}), two),
			between + "data packed seq 0 msg 0 2 messages in 35 bytes [3 4 immediate 0xa malformed, 3 bytes left]"},
		{badCRC, between + "echo malformed: CRC32C does not match (version 1, 62 bytes)"},
		{badVersion, between + "echo malformed: unknown header version (version 9, 62 bytes)"},
		{badCRC[:20], "02:00:00:00:00:01 > 02:00:00:00:00:02 type 0x88b5 malformed: " +
			"frame is shorter than its header or size field (20 bytes)"},
		{[]byte{1, 2}, "malformed: frame is shorter than its header or size field (2 bytes: 01 02)"},
	} {
		if got := Dump(test.frame); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}
