package seal

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/flynn/noise"
)

// noiseSuite is the cipher suite of Noise_NNpsk0_25519_ChaChaPoly_SHA256.
var noiseSuite = noise.NewCipherSuite(noise.DH25519, noise.CipherChaChaPoly, noise.HashSHA256)

// prologue is the text that both ends mix in before the first message. They also mix in the part of
// the frame before that message: addresses, ports, nonce and cookie.
const prologue = "bobnet seal 1"

// terms are what each end announces within the handshake.
type terms struct {
	suites  suite // in an init all that the sender supports; in a reply the chosen one
	ports   transport.PortRange
	session uint32 // the sender's number of the session
}

// termsSize is the length of terms in bytes.
const termsSize = framing.SealMessageSize - 32 - framing.SealTagSize

const sealVersion = 1

// append appends the terms to b.
func (t *terms) append(b []byte) []byte {
	b = append(b, sealVersion, byte(t.suites))
	b = binary.BigEndian.AppendUint16(b, t.ports.Lo)
	b = binary.BigEndian.AppendUint16(b, t.ports.Hi)
	b = binary.BigEndian.AppendUint32(b, t.session)
	return append(b, make([]byte, termsSize-10)...)
}

// errTerms is the error of parseTerms: the sender has the key, but speaks another version.
var errTerms = errors.New("seal: unsupported handshake parameters")

// parseTerms parses the terms of a sender that has the key.
func parseTerms(b []byte) (t terms, err error) {
	if len(b) != termsSize || b[0] != sealVersion {
		return terms{}, errTerms
	}
	be := binary.BigEndian
	t = terms{
		suites: suite(b[1]) & suitesAll, ports: transport.PortRange{Lo: be.Uint16(b[2:]), Hi: be.Uint16(b[4:])},
		session: be.Uint32(b[6:]),
	}
	if t.suites == 0 || t.ports.Lo == 0 || t.ports.Hi < t.ports.Lo || t.session == 0 {
		return terms{}, errTerms
	}
	return t, nil
}

// handshake returns the Noise state of one side. before is the part of the frame before the first
// message.
func handshake(s *secrets, initiator bool, before []byte, random io.Reader) *noise.HandshakeState {
	state, err := noise.NewHandshakeState(noise.Config{
		CipherSuite: noiseSuite, Random: random, Pattern: noise.HandshakeNN, Initiator: initiator,
		Prologue: append([]byte(prologue), before...), PresharedKey: s.psk, PresharedKeyPlacement: 0,
	})
	if err != nil {
		panic(err) // the configuration is valid
	}
	return state
}

// begin writes the first message to frame, a KindSealInit that is complete except for the message
// and the check.
func begin(s *secrets, frame []byte, t *terms, random io.Reader) (*noise.HandshakeState, error) {
	before := frame[:framing.SealMessage]
	state := handshake(s, true, before, random)
	if _, _, _, err := state.WriteMessage(before, t.append(nil)); err != nil {
		return nil, err
	}
	s.check(frame)
	return state, nil
}

// keys are the result of a handshake for one side.
type keys struct{ send, receive [32]byte }

// accept reads the first message, and writes the second one to reply, a KindSealReply that is
// complete except for the message and the check. own returns the answer to the peer's terms.
func accept(s *secrets, init, reply []byte, own func(*terms) terms, random io.Reader) (theirs terms, k keys, err error) {
	state := handshake(s, false, init[:framing.SealMessage], random)
	said, _, _, err := state.ReadMessage(nil, init[framing.SealMessage:][:framing.SealMessageSize])
	if err != nil {
		return terms{}, keys{}, err
	}
	if theirs, err = parseTerms(said); err != nil {
		return terms{}, keys{}, err
	}
	ours := own(&theirs)
	_, to, from, err := state.WriteMessage(reply[:framing.SealAnswer], ours.append(nil))
	if err != nil {
		return terms{}, keys{}, err
	}
	s.check(reply)
	return theirs, keys{send: from.UnsafeKey(), receive: to.UnsafeKey()}, nil
}

// finish reads the second message.
func finish(state *noise.HandshakeState, reply []byte) (theirs terms, k keys, err error) {
	said, to, from, err := state.ReadMessage(nil, reply[framing.SealAnswer:][:framing.SealMessageSize])
	if err != nil {
		return terms{}, keys{}, err
	}
	if theirs, err = parseTerms(said); err != nil {
		return terms{}, keys{}, err
	}
	return theirs, keys{send: to.UnsafeKey(), receive: from.UnsafeKey()}, nil
}
