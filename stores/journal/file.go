package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	attend "github.com/attend-go/attend/core"
)

// ErrReplaced says that a file was deleted, or another one put in its place,
// while it was open. What would be written to it now would be in no file that
// has a name.
var ErrReplaced = errors.New("it was deleted or replaced while it was open")

// A File is a database's file, to tell whether it is still the one that it was.
// It looks at the path alone, and opens only the mark, a small file beside it
// that ends in -mark. Its methods may be called from many goroutines at once.
type File struct {
	path string
	info os.FileInfo
	id   string

	mu     sync.Mutex
	looked time.Time // when InPlace found it
	noted  time.Time // when the mark was written
	life   Life      // what is in it
}

// lookPause is how often readers look whether the file is in its place, and how
// often the mark is written.
const (
	lookPause = 100 * time.Millisecond
	notePause = time.Second
)

// FileAt returns the file at path, which is open already.
func FileAt(path string) (*File, error) {
	path, err := filepath.Abs(path) // a process may change its folder
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &File{path: path, info: info, id: fileID(path, info)}, nil
}

// Check is an error that is [ErrReplaced] where the file is not in its place
// any more. It takes about a microsecond.
func (f *File) Check() error {
	now, err := os.Stat(f.path)
	if err == nil && !os.SameFile(f.info, now) || errors.Is(err, fs.ErrNotExist) {
		return ErrReplaced
	}
	return err
}

// InPlace is Check for readers: they harm nothing, and look now and then.
func (f *File) InPlace() error {
	f.mu.Lock()
	recent := time.Since(f.looked) < lookPause
	f.mu.Unlock()
	if recent {
		return nil
	}
	err := f.Check()
	if err == nil {
		f.mu.Lock()
		f.looked = time.Now()
		f.mu.Unlock()
	}
	return err
}

// A Life is how far a file's logs go: the decision log, and the event log.
type Life [2]struct {
	Epoch  string
	Newest attend.Position
}

// ID says which file of the file system it is: by its number and by when it was
// made, since numbers are used again. It stays when the file is renamed, and a
// copy has another one. It is empty where the system tells nothing.
func (f *File) ID() string { return f.id }

// SameLife reports whether a file that was kept under an id, and goes as far as
// now, is what it was when it was used last. It is not where it is a copy: its
// id is another one, or it is behind the mark, which a copy that is written over
// the file does not bring along. What readers know of a log goes wrong then,
// since the same positions will be of other rows.
func (f *File) SameLife(id string, now Life) bool {
	mark, ok := f.read()
	for i := range mark {
		if ok && (now[i].Epoch != mark[i].Epoch || now[i].Newest < mark[i].Newest) {
			return false
		}
	}
	if id == "" || f.id == "" {
		return true
	}
	was, wasBorn, _ := strings.Cut(id, "-")
	is, isBorn, _ := strings.Cut(f.id, "-")
	return was == is && (wasBorn == isBorn || wasBorn == "" || isBorn == "")
}

// Due reports whether Note is to be called after a commit, and not again for a
// second.
func (f *File) Due() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.noted) < notePause {
		return false
	}
	f.noted = time.Now()
	return true
}

// Note writes the mark of a file that goes as far as now, which is on the disk.
// Where the mark can't be written, or is lost, only the id is left to tell
// copies by. A file that is behind what it was got overwritten while it was
// open: the mark stays, for who opens it next.
func (f *File) Note(now Life) {
	if f.Check() != nil {
		return // it would be another file's
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range now {
		if was := f.life[i]; was.Epoch != "" && (was.Epoch != now[i].Epoch || was.Newest > now[i].Newest) {
			return
		}
	}
	if now == f.life {
		return
	}
	m, err := os.OpenFile(f.path+"-mark", os.O_WRONLY|os.O_CREATE, f.info.Mode().Perm())
	if err != nil {
		return
	}
	// Of one length, so that nothing of an older one is left, and other processes
	// read one or the other.
	if _, err := fmt.Fprintf(m, markFormat, now[0].Epoch, now[0].Newest, now[1].Epoch, now[1].Newest); err == nil {
		f.life = now
	}
	m.Close()
}

const markFormat = "attend %64.64s %20d %64.64s %20d\n"

// read reads the mark. One that is damaged says nothing.
func (f *File) read() (l Life, ok bool) {
	b, err := os.ReadFile(f.path + "-mark")
	if err != nil {
		return l, false
	}
	n, err := fmt.Sscanf(string(b), "attend %s %d %s %d\n", &l[0].Epoch, &l[0].Newest, &l[1].Epoch, &l[1].Newest)
	return l, err == nil && n == 4
}
