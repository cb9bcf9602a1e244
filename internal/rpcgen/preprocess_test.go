package rpcgen

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
)

// constantsOf returns the constants that a specification declares, in order.
func constantsOf(t *testing.T, src string, opt Options) string {
	t.Helper()
	opt.Package = "p"
	out, err := Generate("dir/t.x", []byte(src), opt)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(out)) {
		if name, value, ok := strings.Cut(line, " = "); ok {
			value, _, _ = strings.Cut(value, "//")
			list = append(list, strings.TrimSpace(name)+"="+strings.TrimSpace(value))
		}
	}
	return strings.Join(list, " ")
}

func TestPreprocessor(t *testing.T) {
	for _, test := range []struct{ name, src, want string }{
		{"define", "#define N 5\n#define M N\nconst a = M;", "A=5"},
		{"define of several words", "#define C const c =\nC 1;", "C=1"},
		{"define of itself", "#define a a\nconst a = 1;", "A=1"},
		{"undef", "#define a b\n#undef a\nconst a = 1;", "A=1"},
		{"empty define", "#define E\nconst E a E = 1;", "A=1"},
		{"continued", "#define N \\\n 5\nconst a = N;", "A=5"},
		{"commented", "#define N 5 /* five\n of them */\n#define M 6 // six\nconst a = N;\nconst b = M;", "A=5 B=6"},
		{"ifdef", "#ifdef X\nconst a = 1;\n#else\nconst a = 2;\n#endif", "A=2"},
		{"ifndef", "#ifndef X\nconst a = 1;\n#else\nconst a = 2;\n#endif", "A=1"},
		{"elif", "#if 0\nconst a = 1;\n#elif 1\nconst a = 2;\n#elif 1\nconst a = 3;\n#else\nconst a = 4;\n#endif", "A=2"},
		{"nested", "#if 0\n#if 1\nconst a = 1;\n#else\nconst a = 2;\n#endif\n#else\nconst a = 3;\n#endif", "A=3"},
		{"not read", "#if 0\nit's ' no text\n/*\n#endif\n*/\n#else\nconst a = 1;\n#endif", "A=1"},
		{"defined", "#define X\n#if defined(X) && !defined Y && defined RPC_GO && RPC_HDR\nconst a = 1;\n#endif", "A=1"},
		{"precedence", "#if 1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 % 4 == 3 && 1 << 2 | 1 == 1 && 2 -1 == 1 && ~0 == -1 && 6 / 4 == 1\nconst a = 1;\n#endif", "A=1"},
		{"comparison", "#if 1 < 2 && 2 <= 2 && 3 > 2 && 3 >= 3 && 1 != 2 && !(1 == 2) && 0x10 == 020 && (6 & 3) == 2 && (6 ^ 3) == 5 && 8 >> 1 == 4\nconst a = 1;\n#endif", "A=1"},
		{"decided before", "#if !(defined(N) && 10 / N > 1 || 0 && 1 << 64) && (1 || 1 / 0 || 2 % N) && (1 == 1 || !(1 / 0))\nconst a = 1;\n#endif", "A=1"},
		{"name without a value", "#if X || 0\nconst a = 1;\n#else\nconst a = 2;\n#endif", "A=2"},
		{"macro in a condition", "#define N 5\n#define M (N + 1)\n#if M == 6\nconst a = 1;\n#endif", "A=1"},
		{"ignored", "#pragma once\n#ident \"x\"\n#\nconst a = 1;", "A=1"},
		{"percent", "%#include <x.h>\n%#define F(x) (\\\n   x + y)\nconst a = 1;", "A=1"},
		{"comments", "// one line\nconst a /* in between */ = 1; /* two\nlines */ const b = 2; // end", "A=1 B=2"},
		{"carriage returns", "#define N 5\r\nconst a = N;\r\n", "A=5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := constantsOf(t, test.src, Options{}); got != test.want {
				t.Errorf("constants %s, want %s", got, test.want)
			}
		})
	}
	if got := constantsOf(t, "const a = N;", Options{Defines: map[string]string{"N": "7"}}); got != "A=7" {
		t.Errorf("constants %s, want A=7", got)
	}
}

// TestGoLines: lines after % are Go where the specification asks for it.
func TestGoLines(t *testing.T) {
	src := "%int c;\n#ifdef RPC_GO\n%const inGo = 1\n%var (\\\n#endif\nconst a = 1;"
	src = strings.Replace(src, "%var (\\\n", "", 1)
	if got := constantsOf(t, src, Options{}); got != "const inGo=1 A=1" {
		t.Errorf("constants %s", got)
	}
	_, err := Generate("t.x", []byte("#if RPC_GO\n%int c;\n#endif\nconst a = 1;"), Options{Package: "p"})
	if err == nil || !strings.Contains(err.Error(), "the lines after % of t.x are no Go") {
		t.Error(err)
	}
}

func TestInclude(t *testing.T) {
	files := map[string]string{
		"dir/a.x":     "const a = 1;\n#include \"sub/b.x\"\nconst c = 3;",
		"dir/sub/b.x": "#ifndef B\n#define B\n#include \"b.x\"\nconst b = 2;\n#endif",
		"dir/bad.x":   "\nconst d = ;",
		"dir/loop.x":  "#include \"loop.x\"",
		"dir/open.x":  "#if 1",
	}
	opt := Options{Include: func(from, name string) (string, []byte, error) {
		file := path.Join(path.Dir(from), name)
		if text, ok := files[file]; ok {
			return file, []byte(text), nil
		}
		return "", nil, fs.ErrNotExist
	}}
	if got := constantsOf(t, "#include \"a.x\"\nconst e = 4;", opt); got != "A=1 B=2 C=3 E=4" {
		t.Errorf("constants %s", got)
	}
	opt.Package = "p"
	for name, want := range map[string]string{
		"bad.x":  "dir/bad.x:2:11: expected the value of the constant",
		"loop.x": "32 files within files: does loop.x include itself?",
		"no.x":   "dir/t.x:1:1: cannot include no.x: file does not exist",
		"open.x": "dir/open.x:1:1: the condition has no end",
	} {
		_, err := Generate("dir/t.x", []byte(`#include <`+name+`>`), opt)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestLineMarkers: what the C preprocessor leaves says where errors are.
func TestLineMarkers(t *testing.T) {
	for _, marker := range []string{"# 41 \"orig.x\" 2", "#line 41 \"orig.x\""} {
		_, err := Generate("t.x", []byte("const a = 1;\n"+marker+"\nconst b;"), Options{Package: "p"})
		var list ErrorList
		if !errors.As(err, &list) || list[0].File != "orig.x" || list[0].Line != 41 {
			t.Errorf("%s: %v, want line 41 of orig.x", marker, err)
		}
	}
}

// TestExpansionEnds: macros that double in turn end with an error, in code and in
// conditions.
func TestExpansionEnds(t *testing.T) {
	for _, test := range []struct{ last, double, use string }{
		{"", "m%d m%[1]d", "const a = m64 1;"},
		{" 1", "m%d + m%[1]d", "#if m64\n#endif"},
	} {
		src := "#define m0" + test.last + "\n"
		for i := range 64 {
			src += fmt.Sprintf("#define m%d ", i+1) + fmt.Sprintf(test.double+"\n", i)
		}
		_, err := Generate("t.x", []byte(src+test.use), Options{Package: "p"})
		if err == nil || !strings.Contains(err.Error(), "the macros of this file stand for more than") {
			t.Errorf("%s: %v", test.use, err)
		}
	}
}
