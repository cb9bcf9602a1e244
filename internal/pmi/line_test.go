package pmi

import (
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
)

// TestParse: lines of launchers, escapes, and what is no line, each with its reason.
func TestParse(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Line
		says string
	}{
		{text: "cmd=barrier_out", want: NewLine("barrier_out")},
		{text: "cmd=barrier_out ", want: NewLine("barrier_out")},
		{text: "cmd=get_result rc=0 msg=success value=(vector,(0,2,4))", want: NewLine("get_result", "rc", "0", "msg", "success", "value", "(vector,(0,2,4))")},
		{text: "cmd=put  kvsname=k key=a=b value=", want: NewLine("put", "kvsname", "k", "key", "a=b", "value", "")},
		{text: `cmd=put value=a\ b\\c\d`, want: NewLine("put", "value", `a b\c\d`)},
		{text: "", says: "it is empty"},
		{text: "   ", says: "it is empty"},
		{text: "cmd=", says: "its command is empty"},
		{text: "rc=0 cmd=x", says: `it begins with "rc=0"`},
		{text: "mcmd=spawn", says: `it begins with "mcmd=spawn"`},
		{text: "cmd=x y", says: `"y" has no key`},
		{text: "cmd=x =y", says: `"=y" has no key`},
		{text: "cmd=x a=1 a=2", says: `the key "a" twice`},
		{text: "cmd=x cmd=y", says: `the key "cmd" twice`},
		{text: "cmd=x a=\x00", says: "byte 0x0 is not printable"},
		{text: "cmd=x a=\xff", says: "byte 0xff is not printable"},
		{text: "cmd=x a=" + strings.Repeat("y", MaxLine), says: "at most 1023 are allowed"},
	} {
		got, err := Parse([]byte(tc.text))
		switch {
		case tc.says != "" && (!errors.Is(err, ErrLine) || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%q: %+v, %v, want %q", tc.text, got, err, tc.says)
		case tc.says == "" && (err != nil || !reflect.DeepEqual(got, tc.want)):
			t.Errorf("%q: %+v, %v, want %+v", tc.text, got, err, tc.want)
		}
	}
}

// TestLines: lines that come in pieces, several at once, or without an end, and lines
// that must not be sent.
func TestLines(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		for _, piece := range []string{"cmd=a x", "=1\ncmd=b\ncm", "d=c\n", strings.Repeat("y", MaxLine+1)} {
			there.Write([]byte(piece))
		}
		there.Close()
	}()
	l := lines{conn: here}
	for _, want := range []string{"cmd=a x=1", "cmd=b", "cmd=c"} {
		if got, err := l.read(); err != nil || got.String() != want {
			t.Fatalf("%v, %v, want %s", got, err, want)
		}
	}
	if _, err := l.read(); !errors.Is(err, ErrLine) || !strings.Contains(err.Error(), "no end of line") {
		t.Errorf("a line without end: %v", err)
	}
	io.Copy(io.Discard, here)
	for _, bad := range []Line{NewLine("put", "key", "a\nb"), NewLine("put", "value", strings.Repeat("v", MaxLine))} {
		if err := l.write(bad); !errors.Is(err, ErrLine) {
			t.Errorf("%+v was sent: %v", bad, err)
		}
	}
}

// FuzzParse: any bytes are parsed without harm, and what is accepted reads back as it
// is.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"cmd=init pmi_version=1 pmi_subversion=1", `cmd=put kvsname=k\ v key=x value=a\\b`, "mcmd=spawn", "cmd=get_result rc=-1 msg=no value=unknown", "cmd=x \\", "cmd=x a=\\ "} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrLine) {
				t.Fatal(err)
			}
			return
		}
		for _, w := range l.Words {
			if strings.ContainsAny(w.Key, ` \`) {
				return // only values can be escaped
			}
		}
		again, err := Parse([]byte(l.String()))
		if len(l.String()) < MaxLine && (err != nil || !reflect.DeepEqual(again, l)) {
			t.Fatalf("%q is %+v, and reads back as %+v, %v", text, l, again, err)
		}
	})
}
