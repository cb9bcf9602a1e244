package vipl_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
)

// watched is a source of keys that says when it has been asked.
func watched(s seal.Source, when chan<- error) seal.Source {
	return func() ([]seal.Key, error) {
		keys, err := s()
		select {
		case when <- err:
		default: // nobody waits
		}
		return keys, err
	}
}

// TestSealedKeyFile rewrites the key files of two hosts under a connection that lives: from
// the old key by both to the new one, as docs/security.md has it. Nothing is lost, and the
// sessions under the old key end. A file that is broken, open to others, gone, or has too many keys
// leaves the keys valid that were there before.
func TestSealedKeyFile(t *testing.T) {
	old, fresh := sealKey(1).Text(), sealKey(2).Text()
	dir := t.TempDir()
	var paths [2]string
	var whens [2]chan error
	write := func(side int, text string, mode os.FileMode) {
		t.Helper()
		part := paths[side] + ".part" // so that nobody reads half a file
		if err := errors.Join(os.WriteFile(part, []byte(text), mode), os.Rename(part, paths[side])); err != nil {
			t.Fatal(err)
		}
	}
	nics := vethNICs(t, 1500, vipl.Config{}, func(side int, link transport.Link) transport.Link {
		paths[side], whens[side] = filepath.Join(dir, fmt.Sprint("key", side)), make(chan error)
		write(side, old, 0o600)
		l, err := seal.New(link, seal.Options{Keys: watched(seal.File(paths[side]), whens[side]), Reload: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
	read := func(side int) error { return readAgain(t, whens[side]) }
	a, b := join(t, nics, &vipl.Attributes{Reliability: reliability.ReliableDelivery})
	there, back := newFlow(t, a, b, 50, 3000, 1), newFlow(t, b, a, 50, 3000, 2)
	talk := func(when string) {
		t.Helper()
		within(t, when, func() error { return all(there.send, there.receive, back.send, back.receive) })
	}
	sessions := func() uint64 {
		s, _ := nics[0].SealStats()
		return s.Sessions
	}
	talk("with the old key")
	for _, text := range []string{old + "\n" + fresh, fresh + "\n" + old, fresh} {
		before := sessions()
		for side := range paths {
			write(side, text, 0o600)
			if err := read(side); err != nil {
				t.Fatal(err)
			}
			talk("while a key is replaced")
		}
		if text == fresh && sessions() == before {
			t.Error("the sessions under the old key go on")
		}
	}
	before := sessions()
	for name, f := range badKeyFiles(old, fresh) {
		write(0, f.text, f.mode)
		if err := read(0); !errors.Is(err, seal.ErrKey) {
			t.Errorf("%s: %v, want ErrKey", name, err)
		}
		talk(name)
	}
	if err := os.Remove(paths[0]); err != nil || !errors.Is(read(0), os.ErrNotExist) {
		t.Errorf("a file that is gone is read: %v", err)
	}
	talk("without a key file")
	if s, _ := nics[0].SealStats(); s.Sessions != before || s.OtherKey+s.Unsealed+s.Altered > 0 {
		t.Errorf("%d sessions before, and now %+v", before, s)
	}
}

// keyFile is what is written to one, and who may read it.
type keyFile struct {
	text string
	mode os.FileMode
}

// badKeyFiles returns key files that are refused.
func badKeyFiles(old, fresh string) map[string]keyFile {
	return map[string]keyFile{
		"broken": {fresh[1:], 0o600},
		"open":   {old, 0o604},
		"three":  {old + "," + fresh + "," + sealKey(3).Text(), 0o600},
	}
}

// readAgain waits until a file has been read since it was written, and what was read has been
// taken over, and returns whether it had keys.
func readAgain(t *testing.T, when <-chan error) (err error) {
	t.Helper()
	for range 3 {
		select {
		case err = <-when:
		case <-time.After(time.Minute):
			t.Fatal("the key file is not read again")
		}
	}
	return err
}
