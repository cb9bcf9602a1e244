package engine

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
)

var endedPeer = ethertype.MAC{2, 0, 0, 0, 0, 9}

// ended returns the i-th connection of this test: tags 100+i and 200+i, port i.
func ended(i int) endedConn {
	return endedConn{
		Header:   ethertype.Header{Dst: endedPeer, DstPort: 7, Tag: uint32(200 + i), Seq: 1000, Ack: 5000},
		LocalTag: uint32(100 + i), Port: uint16(i), At: int64(i),
	}
}

// frame returns one of the peer's to the i-th connection.
func frame(i int) *ethertype.Header {
	return &ethertype.Header{Src: endedPeer, SrcPort: 7, DstPort: uint16(i), Tag: uint32(100 + i), Kind: ethertype.KindData, Seq: 5000, Ack: 1000}
}

// TestAnswer: a peer that sends on has not heard; what is not of the peer gets nothing;
// the peer's own word that it is over is heard.
func TestAnswer(t *testing.T) {
	var table endedTable
	table.Add(ended(1), 4)
	cases := []struct {
		name   string
		change func(h *ethertype.Header)
		want   lateAnswer
	}{
		{"data", func(*ethertype.Header) {}, answerAgain},
		{"another tag", func(h *ethertype.Header) { h.Tag++ }, answerStranger},
		{"another port", func(h *ethertype.Header) { h.DstPort++ }, answerStranger},
		{"another host", func(h *ethertype.Header) { h.Src[5]++ }, answerStranger},
		{"acknowledges what was not sent", func(h *ethertype.Header) { h.Ack = 1001 }, answerNothing},
		{"acknowledges what is long over", func(h *ethertype.Header) { h.Ack -= reliability.MaxWindow + 1 }, answerNothing},
		{"number too far ahead", func(h *ethertype.Header) { h.Seq += reliability.MaxWindow + 1 }, answerNothing},
	}
	for _, c := range cases {
		h := frame(1)
		c.change(h)
		got, e := table.Answer(h)
		if got != c.want || (e != nil) != (got == answerAgain) || table.Waiting() != 1 {
			t.Errorf("%s: %v, %v, %d waiting, want %v", c.name, got, e, table.Waiting(), c.want)
		}
	}
	over := frame(1)
	over.Kind = ethertype.KindDisconnect
	if got, _ := table.Answer(over); got != answerStranger || table.Waiting() != 0 {
		t.Errorf("the peer's own end: %v, %d waiting", got, table.Waiting())
	}
}

// TestUnreliable: how far the peer's numbers went is not known on the unreliable level.
func TestUnreliable(t *testing.T) {
	var table endedTable
	e := ended(1)
	e.Unreliable = true
	table.Add(e, 4)
	h := frame(1)
	h.Seq += 10 * reliability.MaxWindow
	if got, _ := table.Answer(h); got != answerAgain {
		t.Errorf("%v, want %v", got, answerAgain)
	}
}

// TestConfirm: an answer counts once, and only from the peer.
func TestConfirm(t *testing.T) {
	var table endedTable
	for i := range 2 {
		table.Add(ended(i), 4)
	}
	forged := frame(1)
	forged.Src[5]++
	if table.Confirm(forged, 201) || table.Confirm(frame(1), 299) || table.Waiting() != 2 {
		t.Fatal("a stranger has confirmed")
	}
	for range 2 {
		if !table.Confirm(frame(1), 201) || table.Waiting() != 1 {
			t.Fatalf("%d wait", table.Waiting())
		}
	}
	for e := range table.Unknown() {
		if e.Port != 0 {
			t.Errorf("port %d is not known", e.Port)
		}
	}
}

// TestLimit: the oldest goes for a new one, and is answered as a stranger's then.
func TestLimit(t *testing.T) {
	var table endedTable
	for i := range 10 {
		table.Add(ended(i), 4)
		if want := min(i+1, 4); table.Waiting() != want {
			t.Fatalf("%d wait of %d, want %d", table.Waiting(), i+1, want)
		}
	}
	for i := range 10 {
		want := answerStranger
		if i >= 6 {
			want = answerAgain
		}
		if got, _ := table.Answer(frame(i)); got != want {
			t.Errorf("connection %d: %v, want %v", i, got, want)
		}
	}
	table.Expire(8)
	if table.Waiting() != 2 {
		t.Errorf("%d wait after those before 8 have expired, want 2", table.Waiting())
	}
}
