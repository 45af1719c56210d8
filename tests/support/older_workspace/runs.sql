BEGIN TRANSACTION;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, node TEXT, kind TEXT NOT NULL,
    time REAL NOT NULL, body TEXT NOT NULL
);
INSERT INTO "events" VALUES(1,'20261122-145543-69d14a',NULL,'run-state',1.79535934464771461489e+09,'{"event":"run-state","time":1795359344.6477146,"state":"running","error":""}');
INSERT INTO "events" VALUES(2,'20261122-145543-69d14a','folder','task-state',1.79535934468072462077e+09,'{"event":"task-state","time":1795359344.6807246,"node":"folder","state":"running","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(3,'20261122-145543-69d14a','folder','task-started',1.79535934468078827862e+09,'{"event":"task-started","time":1795359344.6807883,"node":"folder","pid":24240,"backend":"embedded","backend_reason":"profile local"}');
INSERT INTO "events" VALUES(5,'20261122-145543-69d14a','folder','facts',1.79535934725330877299e+09,'{"event":"facts","time":1795359347.2533088,"node":"folder","values":{"peak_memory_mb":131.1}}');
INSERT INTO "events" VALUES(6,'20261122-145543-69d14a','folder','outputs',1.79535934725941586495e+09,'{"event":"outputs","time":1795359347.2594159,"node":"folder","outputs":{"out":{"kind":"VolumeFiles","uri":"/srv/older/incoming","count":20,"bytes":5120,"spec":{"shape":[4,4,2,1],"dtype":"float32","classes":[]},"manifest":"/srv/older/data/VolumeFolder/68ce8095b02de597/9dac4e1bb0891043/volumes.arrow"}}}');
INSERT INTO "events" VALUES(7,'20261122-145543-69d14a','folder','task-state',1.79535934729401063921e+09,'{"event":"task-state","time":1795359347.2940106,"node":"folder","state":"done","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(8,'20261122-145543-69d14a','convert','task-state',1.79535934729436874382e+09,'{"event":"task-state","time":1795359347.2943687,"node":"convert","state":"running","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(9,'20261122-145543-69d14a','convert','task-started',1.79535934729441285133e+09,'{"event":"task-started","time":1795359347.2944129,"node":"convert","pid":24243,"backend":"embedded","backend_reason":"profile local"}');
INSERT INTO "events" VALUES(10,'20261122-145543-69d14a','convert','message',1.79535934749073362347e+09,'{"event":"message","time":1795359347.4907336,"node":"convert","level":"info","text":"20 volumes in 1 parts; 20 files converted now"}');
INSERT INTO "events" VALUES(11,'20261122-145543-69d14a','convert','facts',1.79535934750326347346e+09,'{"event":"facts","time":1795359347.5032635,"node":"convert","values":{"converted":20,"parts":1,"found":20,"quarantined":0,"labelled":20}}');
INSERT INTO "events" VALUES(12,'20261122-145543-69d14a','convert','facts',1.79535934750682950019e+09,'{"event":"facts","time":1795359347.5068295,"node":"convert","values":{"peak_memory_mb":142.0}}');
INSERT INTO "events" VALUES(13,'20261122-145543-69d14a','convert','outputs',1.79535934750704812999e+09,'{"event":"outputs","time":1795359347.5070481,"node":"convert","outputs":{"out":{"kind":"VolumeParquet","uri":"/srv/older/data/NumpyToParquet/7f86bf1f4f70390c/parts","count":20,"bytes":3971,"spec":{"shape":[4,4,2,1],"dtype":"float32","classes":[]},"manifest":"/srv/older/data/NumpyToParquet/7f86bf1f4f70390c/6a5e49f18ca88560/parts.json","found":20,"quarantined":0,"labelled":20}}}');
INSERT INTO "events" VALUES(14,'20261122-145543-69d14a','convert','task-state',1.79535934754214525225e+09,'{"event":"task-state","time":1795359347.5421453,"node":"convert","state":"done","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(15,'20261122-145543-69d14a','table','task-state',1.79535934754248619081e+09,'{"event":"task-state","time":1795359347.5424862,"node":"table","state":"running","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(16,'20261122-145543-69d14a','table','task-started',1.79535934754253053658e+09,'{"event":"task-started","time":1795359347.5425305,"node":"table","pid":24301,"backend":"embedded","backend_reason":"profile local"}');
INSERT INTO "events" VALUES(18,'20261122-145543-69d14a','table','facts',1.79535935003078532222e+09,'{"event":"facts","time":1795359350.0307853,"node":"table","values":{"version":1,"files":1,"volumes":20,"bytes":3971}}');
INSERT INTO "events" VALUES(19,'20261122-145543-69d14a','table','facts',1.7953593500310571193e+09,'{"event":"facts","time":1795359350.0310571,"node":"table","values":{"peak_memory_mb":175.4}}');
INSERT INTO "events" VALUES(20,'20261122-145543-69d14a','table','outputs',1.79535935003109979636e+09,'{"event":"outputs","time":1795359350.0310998,"node":"table","outputs":{"out":{"kind":"VolumeDelta","uri":"/srv/older/tables/volumes","count":20,"bytes":3971,"spec":{"shape":[4,4,2,1],"dtype":"float32","classes":[]},"version":1,"data_version":1,"files":1,"labelled":20,"selections":[]}}}');
INSERT INTO "events" VALUES(21,'20261122-145543-69d14a','table','task-state',1.79535935005342626568e+09,'{"event":"task-state","time":1795359350.0534263,"node":"table","state":"done","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(22,'20261122-145543-69d14a','optimize','task-state',1.7953593500538871288e+09,'{"event":"task-state","time":1795359350.0538871,"node":"optimize","state":"running","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(23,'20261122-145543-69d14a','optimize','task-started',1.79535935005393481253e+09,'{"event":"task-started","time":1795359350.0539348,"node":"optimize","pid":24310,"backend":"embedded","backend_reason":"profile local"}');
INSERT INTO "events" VALUES(24,'20261122-145543-69d14a','optimize','facts',1.79535935019356369967e+09,'{"event":"facts","time":1795359350.1935637,"node":"optimize","values":{"version":1,"files_before":1,"files":1,"bytes":3971}}');
INSERT INTO "events" VALUES(25,'20261122-145543-69d14a','optimize','facts',1.79535935019417262079e+09,'{"event":"facts","time":1795359350.1941726,"node":"optimize","values":{"peak_memory_mb":158.6}}');
INSERT INTO "events" VALUES(26,'20261122-145543-69d14a','optimize','outputs',1.79535935019425392155e+09,'{"event":"outputs","time":1795359350.194254,"node":"optimize","outputs":{"out":{"kind":"VolumeDelta","uri":"/srv/older/tables/volumes","count":20,"bytes":3971,"spec":{"shape":[4,4,2,1],"dtype":"float32","classes":[]},"version":1,"data_version":1,"files":1,"labelled":20,"selections":[]}}}');
INSERT INTO "events" VALUES(27,'20261122-145543-69d14a','optimize','task-state',1.79535935022206449502e+09,'{"event":"task-state","time":1795359350.2220645,"node":"optimize","state":"done","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(28,'20261122-145543-69d14a','inspect','task-state',1.79535935022241091726e+09,'{"event":"task-state","time":1795359350.222411,"node":"inspect","state":"running","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(29,'20261122-145543-69d14a','inspect','task-started',1.79535935022245216365e+09,'{"event":"task-started","time":1795359350.2224522,"node":"inspect","pid":24422,"backend":"embedded","backend_reason":"profile local"}');
INSERT INTO "events" VALUES(30,'20261122-145543-69d14a','inspect','facts',1.79535935201981449119e+09,'{"event":"facts","time":1795359352.0198145,"node":"inspect","values":{"volumes":20,"labelled":20,"shape":"4x4x2x1","dtype":"float32","files":1,"bytes":3971,"median_file_bytes":3971,"sampled":20,"not_finite":0,"version":1,"minimum":0.0,"maximum":19.0,"mean":9.5,"label 0":10,"label 1":10}}');
INSERT INTO "events" VALUES(31,'20261122-145543-69d14a','inspect','artifact',1.79535935202992439274e+09,'{"event":"artifact","time":1795359352.0299244,"node":"inspect","role":"file","name":"dataset.html","path":"/srv/older/data/InspectDataset/3e0e90eb8fc5eaca/14a6146f176335cb/dataset.html"}');
INSERT INTO "events" VALUES(32,'20261122-145543-69d14a','inspect','artifact',1.79535935203003883366e+09,'{"event":"artifact","time":1795359352.0300388,"node":"inspect","role":"file","name":"dataset.json","path":"/srv/older/data/InspectDataset/3e0e90eb8fc5eaca/14a6146f176335cb/figures.json"}');
INSERT INTO "events" VALUES(33,'20261122-145543-69d14a','inspect','facts',1.79535935203034615519e+09,'{"event":"facts","time":1795359352.0303462,"node":"inspect","values":{"peak_memory_mb":161.4}}');
INSERT INTO "events" VALUES(34,'20261122-145543-69d14a','inspect','outputs',1.79535935203039741518e+09,'{"event":"outputs","time":1795359352.0303974,"node":"inspect","outputs":{"out":{"kind":"Report","uri":"/srv/older/data/InspectDataset/3e0e90eb8fc5eaca/14a6146f176335cb/dataset.html","figures":{"volumes":20,"labelled":20,"shape":"4x4x2x1","dtype":"float32","files":1,"bytes":3971,"median_file_bytes":3971,"sampled":20,"not_finite":0,"version":1,"minimum":0.0,"maximum":19.0,"mean":9.5,"label 0":10,"label 1":10}}}}');
INSERT INTO "events" VALUES(35,'20261122-145543-69d14a','inspect','task-state',1.79535935206216764456e+09,'{"event":"task-state","time":1795359352.0621676,"node":"inspect","state":"done","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(36,'20261122-145543-69d14a',NULL,'run-state',1.7953593520625283718e+09,'{"event":"run-state","time":1795359352.0625284,"state":"done","error":""}');
INSERT INTO "events" VALUES(37,'20261122-145555-1f06a8',NULL,'run-state',1.79535935682696843143e+09,'{"event":"run-state","time":1795359356.8269684,"state":"running","error":""}');
INSERT INTO "events" VALUES(38,'20261122-145555-1f06a8','folder','task-state',1.79535935690398955342e+09,'{"event":"task-state","time":1795359356.9039896,"node":"folder","state":"running","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(39,'20261122-145555-1f06a8','folder','task-started',1.79535935690407299995e+09,'{"event":"task-started","time":1795359356.904073,"node":"folder","pid":24588,"backend":"embedded","backend_reason":"profile local"}');
INSERT INTO "events" VALUES(41,'20261122-145555-1f06a8','folder','facts',1.79535935905517292018e+09,'{"event":"facts","time":1795359359.055173,"node":"folder","values":{"peak_memory_mb":131.2}}');
INSERT INTO "events" VALUES(42,'20261122-145555-1f06a8','folder','outputs',1.7953593590570726395e+09,'{"event":"outputs","time":1795359359.0570726,"node":"folder","outputs":{"out":{"kind":"VolumeFiles","uri":"/srv/older/damaged","count":3,"bytes":524,"spec":{"shape":[4,4,2,1],"dtype":"float32","classes":[]},"manifest":"/srv/older/data/VolumeFolder/d4dac99298b6152c/893bb0b8b5b864c7/volumes.arrow"}}}');
INSERT INTO "events" VALUES(43,'20261122-145555-1f06a8','folder','task-state',1.79535935912520813947e+09,'{"event":"task-state","time":1795359359.1252081,"node":"folder","state":"done","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(44,'20261122-145555-1f06a8','convert','task-state',1.79535935912560653694e+09,'{"event":"task-state","time":1795359359.1256065,"node":"convert","state":"running","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(45,'20261122-145555-1f06a8','convert','task-started',1.79535935912564682953e+09,'{"event":"task-started","time":1795359359.1256468,"node":"convert","pid":24592,"backend":"embedded","backend_reason":"profile local"}');
INSERT INTO "events" VALUES(46,'20261122-145555-1f06a8','convert','failure',1.79535935965208506585e+09,'{"event":"failure","time":1795359359.652085,"node":"convert","code":"too-many-bad-files","message":"1 file cannot be converted, 0 allowed: 1 not-npy. For example 01.npy does not start like a .npy file","hint":"They are listed in /srv/older/data/NumpyToParquet/1f2b375c4d342238/bf235d7937f6be94/quarantine.csv. Mend or remove them, or allow more with max_bad_files; finished parts are not made again.","parameter":"max_bad_files","details":"Traceback (most recent call last):\n  File \"/opt/voxelflow/engine/worker.py\", line 248, in _do\n    outputs = _run(task, catalog(), held)\n              ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/opt/voxelflow/engine/worker.py\", line 317, in _run\n    result = node_type.backends[message.backend](**message.inputs, **keywords)\n             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/opt/voxelflow/nodes/numpy_to_parquet.py\", line 85, in numpy_to_parquet\n    return convert_files(files, choices, ctx)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/opt/voxelflow/nodes/conversion/convert.py\", line 85, in convert_files\n    return _Conversion(files, choices, layout, ledger, store, ctx, convert).run()\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/opt/voxelflow/nodes/conversion/convert.py\", line 116, in run\n    made, reused = self._make(chunks) if chunks else (0, 0)\n                   ^^^^^^^^^^^^^^^^^^\n  File \"/opt/voxelflow/nodes/conversion/convert.py\", line 157, in _make\n    self._enter(rows[number], outcome)\n  File \"/opt/voxelflow/nodes/conversion/convert.py\", line 167, in _enter\n    self._check_limit()\n  File \"/opt/voxelflow/nodes/conversion/convert.py\", line 183, in _check_limit\n    raise too_many(\nengine.errors.TooManyBadFiles: 1 file cannot be converted, 0 allowed: 1 not-npy. For example 01.npy does not start like a .npy file\n"}');
INSERT INTO "events" VALUES(47,'20261122-145555-1f06a8','convert','task-state',1.79535935969727301593e+09,'{"event":"task-state","time":1795359359.697273,"node":"convert","state":"failed","attempt":1,"reason":"1 file cannot be converted, 0 allowed: 1 not-npy. For example 01.npy does not start like a .npy file"}');
INSERT INTO "events" VALUES(48,'20261122-145555-1f06a8','table','task-state',1.79535935969802522664e+09,'{"event":"task-state","time":1795359359.6980252,"node":"table","state":"skipped","attempt":1,"reason":"convert did not finish"}');
INSERT INTO "events" VALUES(49,'20261122-145555-1f06a8','optimize','task-state',1.79535935969810032846e+09,'{"event":"task-state","time":1795359359.6981003,"node":"optimize","state":"skipped","attempt":1,"reason":"table did not finish"}');
INSERT INTO "events" VALUES(50,'20261122-145555-1f06a8',NULL,'run-state',1.79535935970589113235e+09,'{"event":"run-state","time":1795359359.7058911,"state":"failed","error":"convert: 1 file cannot be converted, 0 allowed: 1 not-npy. For example 01.npy does not start like a .npy file. They are listed in /srv/older/data/NumpyToParquet/1f2b375c4d342238/bf235d7937f6be94/quarantine.csv. Mend or remove them, or allow more with max_bad_files; finished parts are not made again."}');
INSERT INTO "events" VALUES(51,'20261122-145602-b9d78b',NULL,'run-state',1.79535936331189846992e+09,'{"event":"run-state","time":1795359363.3118985,"state":"running","error":""}');
INSERT INTO "events" VALUES(52,'20261122-145602-b9d78b','folder','task-state',1.79535936335721492762e+09,'{"event":"task-state","time":1795359363.357215,"node":"folder","state":"cached","attempt":1,"reason":"up to date"}');
INSERT INTO "events" VALUES(53,'20261122-145602-b9d78b','convert','task-state',1.79535936337305474276e+09,'{"event":"task-state","time":1795359363.3730547,"node":"convert","state":"running","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(54,'20261122-145602-b9d78b','convert','task-started',1.79535936337315702436e+09,'{"event":"task-started","time":1795359363.373157,"node":"convert","pid":24847,"backend":"embedded","backend_reason":"profile local"}');
INSERT INTO "events" VALUES(56,'20261122-145602-b9d78b','convert','message',1.7953593657946491242e+09,'{"event":"message","time":1795359365.7946491,"node":"convert","level":"info","text":"20 volumes in 1 parts; 20 files converted now"}');
INSERT INTO "events" VALUES(57,'20261122-145602-b9d78b','convert','facts',1.79535936580189776426e+09,'{"event":"facts","time":1795359365.8018978,"node":"convert","values":{"converted":20,"parts":1,"found":20,"quarantined":0,"labelled":20}}');
INSERT INTO "events" VALUES(58,'20261122-145602-b9d78b','convert','facts',1.79535936580616855618e+09,'{"event":"facts","time":1795359365.8061686,"node":"convert","values":{"peak_memory_mb":142.1}}');
INSERT INTO "events" VALUES(59,'20261122-145602-b9d78b','convert','outputs',1.79535936580626559258e+09,'{"event":"outputs","time":1795359365.8062656,"node":"convert","outputs":{"out":{"kind":"VolumeParquet","uri":"/srv/older/data/NumpyToParquet/9513e5971b2d297e/parts","count":20,"bytes":4373,"spec":{"shape":[4,4,2,1],"dtype":"float32","classes":[]},"manifest":"/srv/older/data/NumpyToParquet/9513e5971b2d297e/bd36d5f13a4bfd33/parts.json","found":20,"quarantined":0,"labelled":20}}}');
INSERT INTO "events" VALUES(60,'20261122-145602-b9d78b','convert','task-state',1.79535936581769037245e+09,'{"event":"task-state","time":1795359365.8176904,"node":"convert","state":"done","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(61,'20261122-145602-b9d78b','table','task-state',1.79535936581806802748e+09,'{"event":"task-state","time":1795359365.818068,"node":"table","state":"running","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(62,'20261122-145602-b9d78b','table','task-started',1.79535936581810927391e+09,'{"event":"task-started","time":1795359365.8181093,"node":"table","pid":24850,"backend":"embedded","backend_reason":"profile local"}');
INSERT INTO "events" VALUES(63,'20261122-145602-b9d78b','table','facts',1.79535936597477602952e+09,'{"event":"facts","time":1795359365.974776,"node":"table","values":{"version":1,"files":1,"volumes":20,"bytes":4373}}');
INSERT INTO "events" VALUES(64,'20261122-145602-b9d78b','table','facts',1.79535936597509431832e+09,'{"event":"facts","time":1795359365.9750943,"node":"table","values":{"peak_memory_mb":175.3}}');
INSERT INTO "events" VALUES(65,'20261122-145602-b9d78b','table','outputs',1.79535936597516441342e+09,'{"event":"outputs","time":1795359365.9751644,"node":"table","outputs":{"out":{"kind":"VolumeDelta","uri":"/srv/older/data/ParquetToDelta/52f65a4dfe13e175/table","count":20,"bytes":4373,"spec":{"shape":[4,4,2,1],"dtype":"float32","classes":[]},"version":1,"data_version":1,"files":1,"labelled":20,"selections":[]}}}');
INSERT INTO "events" VALUES(66,'20261122-145602-b9d78b','table','task-state',1.79535936601222181323e+09,'{"event":"task-state","time":1795359366.0122218,"node":"table","state":"done","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(67,'20261122-145602-b9d78b','optimize','task-state',1.79535936601252245903e+09,'{"event":"task-state","time":1795359366.0125225,"node":"optimize","state":"running","attempt":1,"reason":"never ran before"}');
INSERT INTO "events" VALUES(68,'20261122-145602-b9d78b','optimize','task-started',1.7953593660125615597e+09,'{"event":"task-started","time":1795359366.0125616,"node":"optimize","pid":24932,"backend":"embedded","backend_reason":"profile local"}');
INSERT INTO "events" VALUES(70,'20261122-145602-b9d78b','optimize','facts',1.79535936879088568688e+09,'{"event":"facts","time":1795359368.7908857,"node":"optimize","values":{"version":1,"files_before":1,"files":1,"bytes":4373}}');
INSERT INTO "events" VALUES(71,'20261122-145602-b9d78b','optimize','facts',1.79535936879127311707e+09,'{"event":"facts","time":1795359368.791273,"node":"optimize","values":{"peak_memory_mb":158.5}}');
INSERT INTO "events" VALUES(72,'20261122-145602-b9d78b','optimize','outputs',1.79535936879132533073e+09,'{"event":"outputs","time":1795359368.7913253,"node":"optimize","outputs":{"out":{"kind":"VolumeDelta","uri":"/srv/older/data/ParquetToDelta/52f65a4dfe13e175/table","count":20,"bytes":4373,"spec":{"shape":[4,4,2,1],"dtype":"float32","classes":[]},"version":1,"data_version":1,"files":1,"labelled":20,"selections":[]}}}');
CREATE TABLE results (
    fingerprint TEXT PRIMARY KEY, lineage TEXT NOT NULL, base TEXT NOT NULL, node_type TEXT NOT NULL,
    identity TEXT NOT NULL, outputs TEXT NOT NULL, out TEXT NOT NULL, shared TEXT NOT NULL,
    pipeline TEXT NOT NULL, node TEXT NOT NULL, run_id TEXT NOT NULL, created REAL NOT NULL, used REAL NOT NULL
);
INSERT INTO "results" VALUES('9dac4e1bb08910438849d67ee2800a88','68ce8095b02de59739cc8b169a98797f','9dac4e1bb08910438849d67ee2800a88','VolumeFolder','{"files": {"folder": "f951da596fa43e5736dc0574902907f4"}, "inputs": {}, "params": {"folder": "/srv/older/incoming"}, "type": "VolumeFolder", "version": 1}','{"out": {"kind": "VolumeFiles", "uri": "/srv/older/incoming", "count": 20, "bytes": 5120, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "manifest": "/srv/older/data/VolumeFolder/68ce8095b02de597/9dac4e1bb0891043/volumes.arrow"}}','VolumeFolder/68ce8095b02de597/9dac4e1bb0891043','VolumeFolder/68ce8095b02de597','etl','folder','20261122-145543-69d14a',1.79535934729007029533e+09,1.79535936335699987408e+09);
INSERT INTO "results" VALUES('6a5e49f18ca88560c5b07a8318c1f3fe','7f86bf1f4f70390cb5b0a5e7be2331f3','6a5e49f18ca88560c5b07a8318c1f3fe','NumpyToParquet','{"files": {}, "inputs": {"files": "9dac4e1bb08910438849d67ee2800a88.out"}, "params": {"compression": "none", "label_file": null, "label_pattern": "", "labels": "auto", "not_finite": "quarantine", "row_group_rows": 64, "target_file_mb": 78, "unlabelled": "keep"}, "type": "NumpyToParquet", "version": 1}','{"out": {"kind": "VolumeParquet", "uri": "/srv/older/data/NumpyToParquet/7f86bf1f4f70390c/parts", "count": 20, "bytes": 3971, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "manifest": "/srv/older/data/NumpyToParquet/7f86bf1f4f70390c/6a5e49f18ca88560/parts.json", "found": 20, "quarantined": 0, "labelled": 20}}','NumpyToParquet/7f86bf1f4f70390c/6a5e49f18ca88560','NumpyToParquet/7f86bf1f4f70390c','etl','convert','20261122-145543-69d14a',1.7953593475410282612e+09,1.79535934754102969169e+09);
INSERT INTO "results" VALUES('73d2aab37fc7a1677abdcad4775c5b84','fdb03160a46ddca7bdb6ed02a8a96b80','73d2aab37fc7a1677abdcad4775c5b84','ParquetToDelta','{"files": {}, "inputs": {"parquet": "6a5e49f18ca88560c5b07a8318c1f3fe.out"}, "params": {"existing": "keep", "mode": "link", "table": "/srv/older/tables/volumes"}, "type": "ParquetToDelta", "version": 1}','{"out": {"kind": "VolumeDelta", "uri": "/srv/older/tables/volumes", "count": 20, "bytes": 3971, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "version": 1, "data_version": 1, "files": 1, "labelled": 20, "selections": []}}','ParquetToDelta/fdb03160a46ddca7/73d2aab37fc7a167','ParquetToDelta/fdb03160a46ddca7','etl','table','20261122-145543-69d14a',1.79535935004621601106e+09,1.79535935004621696473e+09);
INSERT INTO "results" VALUES('505ad3894d040bca34e6bb9ce01bc3be','edee4ac61169b5a0afa03536a21618d0','505ad3894d040bca34e6bb9ce01bc3be','OptimizeDelta','{"files": {}, "inputs": {"table": "73d2aab37fc7a1677abdcad4775c5b84.out"}, "params": {"min_fill": 0.75, "rewrite_layout": false, "target_file_mb": 78, "vacuum": false, "vacuum_keep_hours": 0}, "type": "OptimizeDelta", "version": 1}','{"out": {"kind": "VolumeDelta", "uri": "/srv/older/tables/volumes", "count": 20, "bytes": 3971, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "version": 1, "data_version": 1, "files": 1, "labelled": 20, "selections": []}}','OptimizeDelta/edee4ac61169b5a0/505ad3894d040bca','OptimizeDelta/edee4ac61169b5a0','etl','optimize','20261122-145543-69d14a',1.79535935021848392484e+09,1.79535935021848559378e+09);
INSERT INTO "results" VALUES('14a6146f176335cb877f53afa845799d','3e0e90eb8fc5eaca64f0e9ddf4014c06','14a6146f176335cb877f53afa845799d','InspectDataset','{"files": {}, "inputs": {"dataset": "505ad3894d040bca34e6bb9ce01bc3be.out"}, "params": {"sample": 512}, "type": "InspectDataset", "version": 1}','{"out": {"kind": "Report", "uri": "/srv/older/data/InspectDataset/3e0e90eb8fc5eaca/14a6146f176335cb/dataset.html", "figures": {"volumes": 20, "labelled": 20, "shape": "4x4x2x1", "dtype": "float32", "files": 1, "bytes": 3971, "median_file_bytes": 3971, "sampled": 20, "not_finite": 0, "version": 1, "minimum": 0.0, "maximum": 19.0, "mean": 9.5, "label 0": 10, "label 1": 10}}}','InspectDataset/3e0e90eb8fc5eaca/14a6146f176335cb','InspectDataset/3e0e90eb8fc5eaca','etl','inspect','20261122-145543-69d14a',1.79535935205946397784e+09,1.7953593520594651699e+09);
INSERT INTO "results" VALUES('893bb0b8b5b864c7cf13b3e262bcae90','d4dac99298b6152cdad8c255af9d81a9','893bb0b8b5b864c7cf13b3e262bcae90','VolumeFolder','{"files": {"folder": "5c6028aad756f16a91185f8e52486505"}, "inputs": {}, "params": {"folder": "/srv/older/damaged"}, "type": "VolumeFolder", "version": 1}','{"out": {"kind": "VolumeFiles", "uri": "/srv/older/damaged", "count": 3, "bytes": 524, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "manifest": "/srv/older/data/VolumeFolder/d4dac99298b6152c/893bb0b8b5b864c7/volumes.arrow"}}','VolumeFolder/d4dac99298b6152c/893bb0b8b5b864c7','VolumeFolder/d4dac99298b6152c','damaged','folder','20261122-145555-1f06a8',1.7953593591241905689e+09,1.79535935912419176109e+09);
INSERT INTO "results" VALUES('bd36d5f13a4bfd336d81e52f30e404d4','9513e5971b2d297e533e10ad42d336c6','bd36d5f13a4bfd336d81e52f30e404d4','NumpyToParquet','{"files": {}, "inputs": {"files": "9dac4e1bb08910438849d67ee2800a88.out"}, "params": {"compression": "none", "label_file": null, "label_pattern": "", "labels": "auto", "not_finite": "quarantine", "row_group_rows": 8, "target_file_mb": 78, "unlabelled": "keep"}, "type": "NumpyToParquet", "version": 1}','{"out": {"kind": "VolumeParquet", "uri": "/srv/older/data/NumpyToParquet/9513e5971b2d297e/parts", "count": 20, "bytes": 4373, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "manifest": "/srv/older/data/NumpyToParquet/9513e5971b2d297e/bd36d5f13a4bfd33/parts.json", "found": 20, "quarantined": 0, "labelled": 20}}','NumpyToParquet/9513e5971b2d297e/bd36d5f13a4bfd33','NumpyToParquet/9513e5971b2d297e','killed','convert','20261122-145602-b9d78b',1.79535936581484270092e+09,1.79535936581484341619e+09);
INSERT INTO "results" VALUES('c56e6be0d45e6f9e0a2f0a0f94298efc','52f65a4dfe13e175dc62b5bd0d216307','c56e6be0d45e6f9e0a2f0a0f94298efc','ParquetToDelta','{"files": {}, "inputs": {"parquet": "bd36d5f13a4bfd336d81e52f30e404d4.out"}, "params": {"existing": "keep", "mode": "link", "table": ""}, "type": "ParquetToDelta", "version": 1}','{"out": {"kind": "VolumeDelta", "uri": "/srv/older/data/ParquetToDelta/52f65a4dfe13e175/table", "count": 20, "bytes": 4373, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "version": 1, "data_version": 1, "files": 1, "labelled": 20, "selections": []}}','ParquetToDelta/52f65a4dfe13e175/c56e6be0d45e6f9e','ParquetToDelta/52f65a4dfe13e175','killed','table','20261122-145602-b9d78b',1.79535936601138257978e+09,1.79535936601138353344e+09);
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, pipeline TEXT NOT NULL, document TEXT NOT NULL, options TEXT NOT NULL,
    profile TEXT NOT NULL, state TEXT NOT NULL, error TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL, started REAL, ended REAL, heartbeat REAL, pid INTEGER, host TEXT,
    attempt INTEGER NOT NULL DEFAULT 0, cancel INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "runs" VALUES('20261122-145543-69d14a','etl','{
  "$schema": "./pipeline.schema.json",
  "schema_version": 1,
  "name": "etl",
  "nodes": [
    {
      "id": "folder",
      "type": "VolumeFolder",
      "params": {
        "folder": "incoming"
      },
      "position": {
        "x": 0,
        "y": 0
      }
    },
    {
      "id": "convert",
      "type": "NumpyToParquet",
      "params": {},
      "position": {
        "x": 0,
        "y": 0
      }
    },
    {
      "id": "table",
      "type": "ParquetToDelta",
      "params": {
        "table": "tables/volumes"
      },
      "position": {
        "x": 0,
        "y": 0
      }
    },
    {
      "id": "optimize",
      "type": "OptimizeDelta",
      "params": {},
      "position": {
        "x": 0,
        "y": 0
      }
    },
    {
      "id": "inspect",
      "type": "InspectDataset",
      "params": {},
      "position": {
        "x": 0,
        "y": 0
      }
    }
  ],
  "edges": [
    {
      "from": "folder.out",
      "to": "convert.files"
    },
    {
      "from": "convert.out",
      "to": "table.parquet"
    },
    {
      "from": "table.out",
      "to": "optimize.table"
    },
    {
      "from": "optimize.out",
      "to": "inspect.dataset"
    }
  ]
}
','{"start": null, "end": null, "fresh": false, "backend": "embedded"}','local','done','',1.79535934364604520801e+09,1.79535934464748668667e+09,1.79535935206258249283e+09,1.79535935206258273123e+09,NULL,'host',1,0);
INSERT INTO "runs" VALUES('20261122-145555-1f06a8','damaged','{
  "$schema": "./pipeline.schema.json",
  "schema_version": 1,
  "name": "damaged",
  "nodes": [
    {
      "id": "folder",
      "type": "VolumeFolder",
      "params": {
        "folder": "damaged"
      },
      "position": {
        "x": 0,
        "y": 0
      }
    },
    {
      "id": "convert",
      "type": "NumpyToParquet",
      "params": {},
      "position": {
        "x": 0,
        "y": 0
      }
    },
    {
      "id": "table",
      "type": "ParquetToDelta",
      "params": {},
      "position": {
        "x": 0,
        "y": 0
      }
    },
    {
      "id": "optimize",
      "type": "OptimizeDelta",
      "params": {},
      "position": {
        "x": 0,
        "y": 0
      }
    }
  ],
  "edges": [
    {
      "from": "folder.out",
      "to": "convert.files"
    },
    {
      "from": "convert.out",
      "to": "table.parquet"
    },
    {
      "from": "table.out",
      "to": "optimize.table"
    }
  ]
}
','{"start": null, "end": null, "fresh": false, "backend": "embedded"}','local','failed','convert: 1 file cannot be converted, 0 allowed: 1 not-npy. For example 01.npy does not start like a .npy file. They are listed in /srv/older/data/NumpyToParquet/1f2b375c4d342238/bf235d7937f6be94/quarantine.csv. Mend or remove them, or allow more with max_bad_files; finished parts are not made again.',1.79535935548648524287e+09,1.7953593568267083168e+09,1.79535935970603036885e+09,1.79535935970603036885e+09,NULL,'host',1,0);
INSERT INTO "runs" VALUES('20261122-145602-b9d78b','killed','{
  "$schema": "./pipeline.schema.json",
  "schema_version": 1,
  "name": "killed",
  "nodes": [
    {
      "id": "folder",
      "type": "VolumeFolder",
      "params": {
        "folder": "incoming"
      },
      "position": {
        "x": 0,
        "y": 0
      }
    },
    {
      "id": "convert",
      "type": "NumpyToParquet",
      "params": {
        "row_group_rows": 8
      },
      "position": {
        "x": 0,
        "y": 0
      }
    },
    {
      "id": "table",
      "type": "ParquetToDelta",
      "params": {},
      "position": {
        "x": 0,
        "y": 0
      }
    },
    {
      "id": "optimize",
      "type": "OptimizeDelta",
      "params": {},
      "position": {
        "x": 0,
        "y": 0
      }
    }
  ],
  "edges": [
    {
      "from": "folder.out",
      "to": "convert.files"
    },
    {
      "from": "convert.out",
      "to": "table.parquet"
    },
    {
      "from": "table.out",
      "to": "optimize.table"
    }
  ]
}
','{"start": null, "end": null, "fresh": false, "backend": "embedded"}','local','running','',1.79535936242908978461e+09,1.79535936331151199339e+09,NULL,1.79535936844018459315e+09,NULL,'host',1,0);
CREATE TABLE tasks (
    run_id TEXT NOT NULL, node TEXT NOT NULL, position INTEGER NOT NULL, node_type TEXT NOT NULL,
    title TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', fingerprint TEXT NOT NULL DEFAULT '',
    attempt INTEGER NOT NULL DEFAULT 0, started REAL, ended REAL, pid INTEGER,
    progress TEXT, outputs TEXT, failure TEXT,
    PRIMARY KEY (run_id, node)
);
INSERT INTO "tasks" VALUES('20261122-145543-69d14a','folder',0,'VolumeFolder','folder','done','never ran before','9dac4e1bb08910438849d67ee2800a88',1,1.79535934468061041829e+09,1.79535934729000139229e+09,NULL,NULL,'{"out": {"kind": "VolumeFiles", "uri": "/srv/older/incoming", "count": 20, "bytes": 5120, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "manifest": "/srv/older/data/VolumeFolder/68ce8095b02de597/9dac4e1bb0891043/volumes.arrow"}}',NULL);
INSERT INTO "tasks" VALUES('20261122-145543-69d14a','convert',1,'NumpyToParquet','convert','done','never ran before','6a5e49f18ca88560c5b07a8318c1f3fe',1,1.79535934729432797426e+09,1.79535934754097104069e+09,NULL,'{"event":"progress","time":1795359347.4905539,"node":"convert","done":20.0,"total":20.0,"unit":"volumes","label":"converting","rate":744.4248164497151}','{"out": {"kind": "VolumeParquet", "uri": "/srv/older/data/NumpyToParquet/7f86bf1f4f70390c/parts", "count": 20, "bytes": 3971, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "manifest": "/srv/older/data/NumpyToParquet/7f86bf1f4f70390c/6a5e49f18ca88560/parts.json", "found": 20, "quarantined": 0, "labelled": 20}}',NULL);
INSERT INTO "tasks" VALUES('20261122-145543-69d14a','table',2,'ParquetToDelta','table','done','never ran before','73d2aab37fc7a1677abdcad4775c5b84',1,1.79535934754243707654e+09,1.79535935004616808889e+09,NULL,'{"event":"progress","time":1795359349.992441,"node":"table","done":20.0,"total":20.0,"unit":"volumes","label":"filling the table","rate":458.6100949680215}','{"out": {"kind": "VolumeDelta", "uri": "/srv/older/tables/volumes", "count": 20, "bytes": 3971, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "version": 1, "data_version": 1, "files": 1, "labelled": 20, "selections": []}}',NULL);
INSERT INTO "tasks" VALUES('20261122-145543-69d14a','optimize',3,'OptimizeDelta','optimize','done','never ran before','505ad3894d040bca34e6bb9ce01bc3be',1,1.79535935005383086209e+09,1795359350.21842,NULL,NULL,'{"out": {"kind": "VolumeDelta", "uri": "/srv/older/tables/volumes", "count": 20, "bytes": 3971, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "version": 1, "data_version": 1, "files": 1, "labelled": 20, "selections": []}}',NULL);
INSERT INTO "tasks" VALUES('20261122-145543-69d14a','inspect',4,'InspectDataset','inspect','done','never ran before','14a6146f176335cb877f53afa845799d',1,1.79535935022237277025e+09,1.79535935205941367147e+09,NULL,'{"event":"progress","time":1795359351.9812493,"node":"inspect","done":20.0,"total":20.0,"unit":"volumes","label":"","rate":1082.705021575349}','{"out": {"kind": "Report", "uri": "/srv/older/data/InspectDataset/3e0e90eb8fc5eaca/14a6146f176335cb/dataset.html", "figures": {"volumes": 20, "labelled": 20, "shape": "4x4x2x1", "dtype": "float32", "files": 1, "bytes": 3971, "median_file_bytes": 3971, "sampled": 20, "not_finite": 0, "version": 1, "minimum": 0.0, "maximum": 19.0, "mean": 9.5, "label 0": 10, "label 1": 10}}}',NULL);
INSERT INTO "tasks" VALUES('20261122-145555-1f06a8','folder',0,'VolumeFolder','folder','done','never ran before','893bb0b8b5b864c7cf13b3e262bcae90',1,1.79535935690375208855e+09,1.79535935912411546708e+09,NULL,NULL,'{"out": {"kind": "VolumeFiles", "uri": "/srv/older/damaged", "count": 3, "bytes": 524, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "manifest": "/srv/older/data/VolumeFolder/d4dac99298b6152c/893bb0b8b5b864c7/volumes.arrow"}}',NULL);
INSERT INTO "tasks" VALUES('20261122-145555-1f06a8','convert',1,'NumpyToParquet','convert','failed','1 file cannot be converted, 0 allowed: 1 not-npy. For example 01.npy does not start like a .npy file','bf235d7937f6be9453d6a70b1ab7a632',1,1.79535935912556338309e+09,1.79535935969696068765e+09,NULL,'{"event":"progress","time":1795359359.625652,"node":"convert","done":3.0,"total":3.0,"unit":"volumes","label":"converting","rate":141.1433334530558}',NULL,'{"event":"failure","time":1795359359.652085,"node":"convert","code":"too-many-bad-files","message":"1 file cannot be converted, 0 allowed: 1 not-npy. For example 01.npy does not start like a .npy file","hint":"They are listed in /srv/older/data/NumpyToParquet/1f2b375c4d342238/bf235d7937f6be94/quarantine.csv. Mend or remove them, or allow more with max_bad_files; finished parts are not made again.","parameter":"max_bad_files","details":"Traceback (most recent call last):\n  File \"/opt/voxelflow/engine/worker.py\", line 248, in _do\n    outputs = _run(task, catalog(), held)\n              ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/opt/voxelflow/engine/worker.py\", line 317, in _run\n    result = node_type.backends[message.backend](**message.inputs, **keywords)\n             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/opt/voxelflow/nodes/numpy_to_parquet.py\", line 85, in numpy_to_parquet\n    return convert_files(files, choices, ctx)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/opt/voxelflow/nodes/conversion/convert.py\", line 85, in convert_files\n    return _Conversion(files, choices, layout, ledger, store, ctx, convert).run()\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"/opt/voxelflow/nodes/conversion/convert.py\", line 116, in run\n    made, reused = self._make(chunks) if chunks else (0, 0)\n                   ^^^^^^^^^^^^^^^^^^\n  File \"/opt/voxelflow/nodes/conversion/convert.py\", line 157, in _make\n    self._enter(rows[number], outcome)\n  File \"/opt/voxelflow/nodes/conversion/convert.py\", line 167, in _enter\n    self._check_limit()\n  File \"/opt/voxelflow/nodes/conversion/convert.py\", line 183, in _check_limit\n    raise too_many(\nengine.errors.TooManyBadFiles: 1 file cannot be converted, 0 allowed: 1 not-npy. For example 01.npy does not start like a .npy file\n"}');
INSERT INTO "tasks" VALUES('20261122-145555-1f06a8','table',2,'ParquetToDelta','table','skipped','convert did not finish','e31d0fe0f782649ce447999aeb4a80d1',0,NULL,1.79535935969738674159e+09,NULL,NULL,NULL,NULL);
INSERT INTO "tasks" VALUES('20261122-145555-1f06a8','optimize',3,'OptimizeDelta','optimize','skipped','table did not finish','8d3e821fe847c8844fda1216733ecb32',0,NULL,1.79535935969807791713e+09,NULL,NULL,NULL,NULL);
INSERT INTO "tasks" VALUES('20261122-145602-b9d78b','folder',0,'VolumeFolder','folder','cached','up to date','9dac4e1bb08910438849d67ee2800a88',0,NULL,NULL,NULL,NULL,'{"out": {"kind": "VolumeFiles", "uri": "/srv/older/incoming", "count": 20, "bytes": 5120, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "manifest": "/srv/older/data/VolumeFolder/68ce8095b02de597/9dac4e1bb0891043/volumes.arrow"}}',NULL);
INSERT INTO "tasks" VALUES('20261122-145602-b9d78b','convert',1,'NumpyToParquet','convert','done','never ran before','bd36d5f13a4bfd336d81e52f30e404d4',1,1.79535936337278270724e+09,1.79535936581478405005e+09,NULL,'{"event":"progress","time":1795359365.7944758,"node":"convert","done":20.0,"total":20.0,"unit":"volumes","label":"converting","rate":934.7201277531253}','{"out": {"kind": "VolumeParquet", "uri": "/srv/older/data/NumpyToParquet/9513e5971b2d297e/parts", "count": 20, "bytes": 4373, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "manifest": "/srv/older/data/NumpyToParquet/9513e5971b2d297e/bd36d5f13a4bfd33/parts.json", "found": 20, "quarantined": 0, "labelled": 20}}',NULL);
INSERT INTO "tasks" VALUES('20261122-145602-b9d78b','table',2,'ParquetToDelta','table','done','never ran before','c56e6be0d45e6f9e0a2f0a0f94298efc',1,1.79535936581802582742e+09,1.79535936601131510727e+09,NULL,'{"event":"progress","time":1795359365.951397,"node":"table","done":20.0,"total":20.0,"unit":"volumes","label":"filling the table","rate":369.518220296233}','{"out": {"kind": "VolumeDelta", "uri": "/srv/older/data/ParquetToDelta/52f65a4dfe13e175/table", "count": 20, "bytes": 4373, "spec": {"shape": [4, 4, 2, 1], "dtype": "float32", "classes": []}, "version": 1, "data_version": 1, "files": 1, "labelled": 20, "selections": []}}',NULL);
INSERT INTO "tasks" VALUES('20261122-145602-b9d78b','optimize',3,'OptimizeDelta','optimize','running','never ran before','30834d20e551e73609c5e50f0828a772',1,1.79535936601248311992e+09,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE tracking (
    run_id TEXT PRIMARY KEY, cursor INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT '{}',
    finished INTEGER NOT NULL DEFAULT 0, problem TEXT NOT NULL DEFAULT ''
);
CREATE INDEX runs_of_pipeline ON runs (pipeline, created);
CREATE INDEX events_of_run ON events (run_id, seq);
CREATE INDEX results_of_lineage ON results (lineage, created);
CREATE INDEX results_of_base ON results (base);
CREATE INDEX tasks_of_node ON tasks (node);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',72);
COMMIT;
