package seal

import (
	"bufio"
	"bytes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"golang.org/x/crypto/chacha20poly1305"
)

// keySize is the length of a key in bytes.
const keySize = 32

// maxKeys is how many keys are valid at a time: the one in use, and another during a
// rotation.
const maxKeys = 2

// Key is the common key of all stations of a segment: bytes from a random source. Formatting a Key
// does not print it.
type Key [keySize]byte

// Source returns the currently valid keys, one or two. The first one seals new handshakes and
// broadcasts; those of peers may use any of them. Any goroutine may call a Source at any time,
// repeatedly.
type Source func() ([]Key, error)

// ErrKey is wrapped by errors about keys.
var ErrKey = errors.New("seal: no usable key")

// NewKey returns a new key from the system's random source.
func NewKey() (k Key) {
	_, _ = rand.Read(k[:]) // never fails
	return k
}

// String returns a constant, so that no log contains the key.
func (Key) String() string { return "(key)" }

// GoString returns a constant, as String does.
func (Key) GoString() string { return "seal.Key{...}" }

// Text returns the key in the format of key files: 64 hexadecimal digits.
func (k Key) Text() string { return hex.EncodeToString(k[:]) }

// Fixed returns a Source that always returns these keys.
func Fixed(keys ...Key) Source { return func() ([]Key, error) { return keys, nil } }

// Check returns an error that wraps ErrKey if the source has no usable key now.
func Check(s Source) error {
	_, err := ask(s)
	return err
}

// Text returns a Source of the keys in text: one or two keys of 64 hexadecimal digits, on separate
// lines or separated by commas. It ignores empty lines, and comments from # to the end of a line.
func Text(text string) Source {
	return func() ([]Key, error) { return parseKeys([]byte(text)) }
}

// File returns a Source of the keys in a file, in the format of Text. The Source reads the file at each
// call. It refuses a file that every user of the host may read or write.
func File(path string) Source {
	return func() ([]Key, error) {
		f, err := userfile.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKey, err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKey, err)
		}
		if info.Mode().Perm()&0o007 != 0 {
			return nil, fmt.Errorf("%w: key file %s is open to every user of this host (%v): chmod o= %s", ErrKey, path, info.Mode().Perm(), path)
		}
		if info.Size() > maxKeyFile {
			return nil, fmt.Errorf("%w: key file %s has %d bytes, want at most %d", ErrKey, path, info.Size(), maxKeyFile)
		}
		text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKey, err)
		}
		keys, err := parseKeys(text)
		if err != nil {
			err = fmt.Errorf("%w (key file %s)", err, path)
		}
		return keys, err
	}
}

// maxKeyFile is the maximum number of bytes that are read from a key file.
const maxKeyFile = 1 << 16

// parseKeys parses keys of 64 hexadecimal digits, on separate lines or separated by commas. It
// ignores empty lines, and comments from # to the end of a line. Its errors do not contain the
// text.
func parseKeys(text []byte) (keys []Key, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for line := 1; lines.Scan(); line++ {
		content, _, _ := strings.Cut(lines.Text(), "#")
		for word := range strings.FieldsFuncSeq(content, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' }) {
			var k Key
			if n, err := hex.Decode(k[:], []byte(word[:min(len(word), 2*keySize)])); err != nil || n != keySize || len(word) != 2*keySize {
				return nil, fmt.Errorf("%w: line %d has %d characters that are not a key: want %d hexadecimal digits, as bobnet key prints them",
					ErrKey, line, len(word), 2*keySize)
			}
			keys = append(keys, k)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	if err := checkKeys(keys); err != nil {
		return nil, err
	}
	return keys, nil
}

// checkKeys returns an error if the keys cannot be used together.
func checkKeys(keys []Key) error {
	if len(keys) == 0 || len(keys) > maxKeys {
		return fmt.Errorf("%w: got %d keys, want 1, or %d during a rotation: the new and the old one", ErrKey, len(keys), maxKeys)
	}
	for i, k := range keys {
		if k == (Key{}) {
			return fmt.Errorf("%w: key %d is all zeros", ErrKey, i+1)
		}
		if i > 0 && k == keys[0] {
			return fmt.Errorf("%w: duplicate key", ErrKey)
		}
	}
	return nil
}

// secrets are the secrets that are derived from one key.
type secrets struct {
	key   Key
	psk   []byte      // for handshakes
	group cipher.AEAD // for broadcast frames: XChaCha20-Poly1305
	mac   hash.Hash   // for checks
	sum   [sha256.Size]byte
}

// Labels of derived secrets, for those of a key and those of a handshake: each secret has one
// purpose.
const (
	labelPSK    = "bobnet seal 1 handshake"
	labelGroup  = "bobnet seal 1 group"
	labelCheck  = "bobnet seal 1 check"
	labelAES    = "bobnet seal 1 AES-128-GCM"
	labelChaCha = "bobnet seal 1 ChaCha20-Poly1305"
)

// derive returns the secrets of a key.
func derive(k Key) *secrets {
	s := &secrets{key: k, psk: expand(k[:], labelPSK, chacha20poly1305.KeySize)}
	group, err := chacha20poly1305.NewX(expand(k[:], labelGroup, chacha20poly1305.KeySize))
	if err != nil {
		panic(err) // the size is valid
	}
	s.group, s.mac = group, hmac.New(sha256.New, expand(k[:], labelCheck, sha256.Size))
	return s
}

// expand derives size bytes from a secret.
func expand(secret []byte, label string, size int) []byte {
	out, err := hkdf.Key(sha256.New, secret, nil, label, size)
	if err != nil {
		panic(err) // the size is valid
	}
	return out
}

// check writes the check of frame to its last SealCheckSize bytes.
func (s *secrets) check(frame []byte) {
	copy(frame[len(frame)-framing.SealCheckSize:], s.checkOf(frame))
}

// checks reports whether the check of frame is valid.
func (s *secrets) checks(frame []byte) bool {
	return hmac.Equal(frame[len(frame)-framing.SealCheckSize:], s.checkOf(frame))
}

// checkOf returns the check of frame. It is valid until the next call.
func (s *secrets) checkOf(frame []byte) []byte {
	s.mac.Reset()
	s.mac.Write(frame[:len(frame)-framing.SealCheckSize])
	return s.mac.Sum(s.sum[:0])[:framing.SealCheckSize]
}
