//! Elements of shared file systems.

use kubevirt_api::typed_xml::element;

element! {
    /// A directory shared with the guest.
    FilesystemDevice {
        kind: String = attr "type" => "Type";
        access_mode: String = attr "accessMode" => "AccessMode";
        source: Option<FilesystemSource> = child "source" => "Source";
        target: Option<FilesystemTarget> = child "target" => "Target";
        driver: Option<FilesystemDriver> = child "driver" => "Driver";
        binary: Option<FilesystemBinary> = child "binary" => "Binary";
    }

    /// The directory, or the socket of virtiofsd.
    FilesystemSource {
        dir: String = attr "dir" => "Dir";
        socket: String = attr "socket" when set => "Socket";
    }

    /// The mount tag.
    FilesystemTarget {
        dir: String = attr "dir" when set => "Dir";
    }

    /// The driver of a shared directory.
    FilesystemDriver {
        kind: String = attr "type" => "Type";
        queue: String = attr "queue" when set => "Queue";
    }

    /// The virtiofsd that libvirt starts.
    FilesystemBinary {
        path: String = attr "path" when set => "Path";
        xattr: String = attr "xattr" when set => "Xattr";
        cache: Option<FilesystemBinaryCache> = child "cache" => "Cache";
        lock: Option<FilesystemBinaryLock> = child "lock" => "Lock";
    }

    /// The cache mode of virtiofsd.
    FilesystemBinaryCache {
        mode: String = attr "mode" when set => "Mode";
    }

    /// The locking of virtiofsd.
    FilesystemBinaryLock {
        posix: String = attr "posix" when set => "Posix";
        flock: String = attr "flock" when set => "Flock";
    }
}
