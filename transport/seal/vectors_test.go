package seal

import (
	"bytes"
	"encoding/hex"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/crypto/chacha20poly1305"
)

// securityDoc has the vectors below the heading vectorsHead, in the last lines of that section.
const (
	securityDoc = "../../docs/security.md"
	vectorsHead = "\n## Vectors\n"
)

var update = flag.Bool("update", false, "write the vectors of "+securityDoc)

// draws keeps what a station draws from its source of randomness, one after the other.
type draws struct {
	from io.Reader
	all  [][]byte
}

// Read draws.
func (d *draws) Read(b []byte) (int, error) {
	n, err := d.from.Read(b)
	d.all = append(d.all, bytes.Clone(b[:n]))
	return n, err
}

// next returns what was drawn first of what has not been returned, which has to have this size.
func (d *draws) next(t *testing.T, size int) []byte {
	t.Helper()
	if len(d.all) == 0 || len(d.all[0]) != size {
		t.Fatalf("%x were drawn, want %d bytes at first", d.all, size)
	}
	first := d.all[0]
	d.all = d.all[1:]
	return first
}

// meeting is two stations that make a session, for one frame, and what they have drawn and sent.
type meeting struct {
	a, b         *station
	drawnA       draws
	drawnB       draws
	plain        []byte
	hello        []byte
	cookie       []byte
	init         []byte
	reply        []byte
	sealed       []byte
	secretB      []byte // of its cookies
	saltA        []byte
	nonceA       []byte
	idA, idB     []byte
	ephA, ephB   []byte
	there, back  [32]byte // keys that the handshake has yielded
	cipherOfBoth suite
}

// meet has A send a frame to B, which can do some ciphers.
func meet(t *testing.T, ofB suite) *meeting {
	t.Helper()
	m := &meeting{drawnA: draws{from: rand.NewChaCha8([32]byte{1})}, drawnB: draws{from: rand.NewChaCha8([32]byte{2})}, cipherOfBoth: choose(suitesAll, ofB)}
	m.a, m.b = newStationOf(t, 1, Options{}, &m.drawnA, keyOf(1)), newStationOf(t, 2, Options{suites: ofB}, &m.drawnB, keyOf(1))
	m.plain = m.a.plain(m.b, "sixteen octets..")
	to, from := m.b, m.a
	sent := []*[]byte{&m.hello, &m.cookie, &m.init, &m.reply, &m.sealed}
	for frames := m.a.send(m.plain, 10); len(frames) > 0; to, from = from, to {
		if len(frames) != 1 || len(sent) == 0 {
			t.Fatalf("sent %x", frames)
		}
		*sent[0], sent = frames[0], sent[1:]
		frames = to.hear(frames, 10)
	}
	m.b.wantGot(m.plain)
	a, b := &m.drawnA, &m.drawnB
	a.next(t, 32) // the secret of cookies, which A gives none
	m.saltA, m.nonceA, m.idA, m.ephA = a.next(t, saltSize), a.next(t, framing.SealNonceSize), a.next(t, 4), a.next(t, 32)
	m.secretB = b.next(t, 32)
	b.next(t, saltSize)
	m.idB, m.ephB = b.next(t, 4), b.next(t, 32)
	m.keys(t)
	return m
}

// keys computes what the handshake has yielded, as B does.
func (m *meeting) keys(t *testing.T) {
	t.Helper()
	again := bytes.Clone(m.reply)
	own := terms{suites: m.cipherOfBoth, ports: m.b.ports, session: m.b.peers.find(m.a.self, m.a.ports.Lo).current.local}
	_, k, err := accept(derive(keyOf(1)), m.init, again, func(*terms) terms { return own }, bytes.NewReader(m.ephB))
	if err != nil || !bytes.Equal(again, m.reply) {
		t.Fatalf("the reply is %x, and anew %x, %v", m.reply, again, err)
	}
	m.there, m.back = k.receive, k.send
}

// vectorText lays out names and bytes, 32 on a line.
type vectorText struct{ strings.Builder }

func (v *vectorText) put(name string, value []byte) {
	v.WriteString("    " + name + "\n")
	for text := hex.EncodeToString(value); text != ""; {
		n := min(len(text), 64)
		v.WriteString("        " + text[:n] + "\n")
		text = text[n:]
	}
}

// vectorsOf returns what a key, randomness and frames become, as the document has it.
func vectorsOf(t *testing.T) string {
	t.Helper()
	m := meet(t, suitesAll)
	key := keyOf(1)
	var v vectorText
	v.put("key", key[:])
	v.put("key of the handshake, psk", expand(key[:], labelPSK, chacha20poly1305.KeySize))
	v.put("key of checks", expand(key[:], labelCheck, 32))
	v.put("key of frames to all", expand(key[:], labelGroup, chacha20poly1305.KeySize))
	v.put("A's nonce", m.nonceA)
	v.put("A's session number", m.idA)
	v.put("A's ephemeral private key", m.ephA)
	v.put("A's salt of frames to all", m.saltA)
	v.put("B's secret of cookies", m.secretB)
	v.put("B's session number", m.idB)
	v.put("B's ephemeral private key", m.ephB)
	v.put("plain frame from A to B", m.plain)
	v.put("A sends seal-hello", m.hello)
	v.put("B sends seal-cookie, at time 10", m.cookie)
	v.put("A sends seal-init", m.init)
	v.put("B sends seal-reply", m.reply)
	v.put("the handshake's key from A to B", m.there[:])
	v.put("AES-128-GCM key from A to B", expand(m.there[:], labelAES, 16))
	v.put("A sends sealed, the frame above, counter 0", m.sealed)
	long := m.a.plain(m.b, strings.Repeat("as if it were longer than the MTU ", 5))
	v.put("another plain frame from A to B", long)
	v.put("A sends sealed-long, that frame, counter 1", m.a.peers.find(m.b.self, m.b.ports.Lo).current.sealLong(make([]byte, 400), long,
		long[ethertype.EthernetSize:transport.LongBegin], long[transport.LongBegin:]))
	back := m.b.plain(m.a, "back")
	v.put("plain frame from B to A", back)
	v.put("the handshake's key from B to A", m.back[:])
	v.put("AES-128-GCM key from B to A", expand(m.back[:], labelAES, 16))
	v.put("B sends sealed, counter 0", m.b.send(back, 10)[0])
	all := m.a.plain(m.b, "to all")
	copy(all, ethertype.Broadcast[:])
	v.put("plain frame from A to all", all)
	v.put("A sends sealed-group, counter 0", m.a.send(all, 10)[0])
	other := meet(t, suiteChaCha)
	if !bytes.Equal(other.init, m.init) {
		t.Fatal("A has begun otherwise")
	}
	v.put("B sends seal-reply, if it can do ChaCha20-Poly1305 only", other.reply)
	v.put("ChaCha20-Poly1305 key from A to B", expand(other.there[:], labelChaCha, chacha20poly1305.KeySize))
	v.put("A sends sealed, the first frame above, counter 0", other.sealed)
	return v.String()
}

// TestVectors: the bytes on the wire, and all that goes into them, are those in the document, by
// which other implementations are checked.
func TestVectors(t *testing.T) {
	want := vectorsOf(t)
	doc, err := os.ReadFile(securityDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, section, found := strings.Cut(string(doc), vectorsHead)
	if !found {
		t.Fatalf("%s has no vectors", securityDoc)
	}
	section, after, more := strings.Cut(section, "\n## ")
	if more {
		after = "\n## " + after
	}
	begin := strings.Index(section, "    key\n")
	if begin < 0 {
		begin = len(section)
	}
	if *update {
		if err := os.WriteFile(securityDoc, []byte(before+vectorsHead+section[:begin]+want+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got := strings.Split(section[begin:], "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(got) || got[i] != line {
			t.Fatalf("line %d of the vectors in %s is other than what the code computes, %q: see what has changed, and write them by -update", i+1, securityDoc, line)
		}
	}
	if strings.TrimRight(section[begin:], "\n") != strings.TrimRight(want, "\n") {
		t.Errorf("%s has more vectors than the code computes", securityDoc)
	}
}
